import { QueryError } from '../errors.ts'

/**
 * Cuts ClickHouse SQL into tokens, by the rules of the engine's own lexer: nested comments, both quote escapes,
 * typographic quotes, here-documents, hexadecimal strings.
 *
 * The server needs only to know where words, strings and brackets begin and end: it never parses. Where the engine
 * and this lexer might disagree, `guard-analyst.ts` makes sure that the disagreement ends in a refusal.
 */

export type TokenKind = 'word' | 'quoted' | 'string' | 'number' | 'comment' | 'symbol' | 'broken'

export interface Token {
  kind: TokenKind
  /** First and one-past-last position in the text, in UTF-16 units. */
  start: number
  end: number
  /** The text of the token; upper case for words, so that keywords compare directly. */
  text: string
}

/** Blanks of ASCII, and those of Unicode that the engine skips too. */
const SPACE = /[\s\u0085\u180e\ufeff]|\u200b|\u200c|\u200d|\u2060/
const WORD = /[A-Za-z0-9_$]/
const WORDS = /[A-Za-z0-9_$]+/y
/** Each may begin a here-document, whose end must be searched in all the text. */
const MAX_DOLLARS = 200
const TYPOGRAPHIC = new Map([['\u2018', '\u2019'], ['\u201c', '\u201d']])

/** All tokens of a text, comments included. Positions are ascending; white space is left out. */
export function lexSql (sql: string): Token[] {
  return [...scanTokens(sql)]
}

/** The same one by one, for texts whose end is data and must not be looked at. */
export function * scanTokens (sql: string): Generator<Token> {
  let at = 0
  let dollars = 0
  while (at < sql.length) {
    const char = sql[at]!
    if (SPACE.test(char)) { at++; continue }
    if (char === '$' && ++dollars > MAX_DOLLARS) {
      throw new QueryError(62, `Syntax error: more than ${MAX_DOLLARS} words begin with $`)
    }
    const [kind, end] = scanToken(sql, at, char)
    const text = sql.slice(at, end)
    yield { kind, start: at, end, text: kind === 'word' ? text.toUpperCase() : text }
    at = end
  }
}

function scanToken (sql: string, at: number, char: string): [TokenKind, number] {
  const next = sql[at + 1] ?? ''
  if (char === '-' && next === '-') return ['comment', lineEnd(sql, at)]
  if (char === '/' && next === '/') return ['comment', lineEnd(sql, at)]
  if (char === '#' && (next === ' ' || next === '!')) return ['comment', lineEnd(sql, at)]
  if (char === '/' && next === '*') return scanComment(sql, at)
  if (char === "'") return scanQuoted(sql, at, char, 'string')
  if (char === '"' || char === '`') return scanQuoted(sql, at, char, 'quoted')
  if (TYPOGRAPHIC.has(char)) return scanTypographic(sql, at, char)
  if (char === '$') return scanHereDocument(sql, at)
  if (next === "'" && 'xXbB'.includes(char)) return scanHexadecimal(sql, at)
  if (WORD.test(char)) return scanWordOrNumber(sql, at)
  return ['symbol', at + 1]
}

function lineEnd (sql: string, at: number): number {
  const end = sql.indexOf('\n', at)
  return end === -1 ? sql.length : end
}

/** Numbers fall into pieces at points and signs, which does not matter here. */
function scanWordOrNumber (sql: string, at: number): [TokenKind, number] {
  const end = scanWord(sql, at)
  return [/^[0-9]+$/.test(sql.slice(at, end)) ? 'number' : 'word', end]
}

function scanWord (sql: string, at: number): number {
  WORDS.lastIndex = at
  return WORDS.test(sql) ? WORDS.lastIndex : at
}

function scanComment (sql: string, at: number): [TokenKind, number] {
  let depth = 0
  for (let end = at; end < sql.length - 1; end++) {
    if (sql[end] === '/' && sql[end + 1] === '*') {
      depth++
      end++
    } else if (sql[end] === '*' && sql[end + 1] === '/') {
      depth--
      end++
      if (depth === 0) return ['comment', end + 1]
    }
  }
  return ['broken', sql.length]
}

function scanQuoted (sql: string, at: number, quote: string, kind: TokenKind): [TokenKind, number] {
  for (let end = at + 1; end < sql.length; end++) {
    if (sql[end] === '\\') {
      end++
    } else if (sql[end] === quote) {
      if (sql[end + 1] !== quote) return [kind, end + 1]
      end++
    }
  }
  return ['broken', sql.length]
}

function scanTypographic (sql: string, at: number, open: string): [TokenKind, number] {
  const end = sql.indexOf(TYPOGRAPHIC.get(open)!, at + 1)
  if (end === -1) return ['broken', sql.length]
  return [open === '\u2018' ? 'string' : 'quoted', end + 1]
}

/** `$tag$ ... $tag$` is a string when it is closed; otherwise the dollar belongs to a word or stands alone. */
function scanHereDocument (sql: string, at: number): [TokenKind, number] {
  const tagEnd = sql.indexOf('$', at + 1)
  if (tagEnd !== -1) {
    const tag = sql.slice(at, tagEnd + 1)
    const close = sql.indexOf(tag, tagEnd + 1)
    if (close !== -1) return ['string', close + tag.length]
  }
  const end = scanWord(sql, at)
  return end === at + 1 ? ['symbol', end] : ['word', end]
}

function scanHexadecimal (sql: string, at: number): [TokenKind, number] {
  let end = at + 2
  while (end < sql.length && /[0-9A-Fa-f]/.test(sql[end]!)) end++
  return sql[end] === "'" ? ['string', end + 1] : ['broken', sql.length]
}

/** A string literal of ClickHouse. Only the quote and the backslash have a meaning inside one. */
export function quoteString (text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}

/** A quoted identifier of ClickHouse. */
export function quoteIdentifier (text: string): string {
  return `\`${text.replace(/[\\`]/g, '\\$&')}\``
}
