/**
 * ClickHouse's SQL as text: split into tokens, and strings and names written and read.
 *
 * By the rules of the engine's own lexer: nested comments, both quote escapes,
 * typographic quotes, here-documents, hexadecimal strings, numbers that are names. It only finds where words, strings
 * and brackets begin and end; nothing here parses.
 */

export type SqlTokenKind = 'word' | 'quoted' | 'string' | 'number' | 'comment' | 'symbol' | 'broken' | 'unscanned'

export interface SqlToken {
  /**
   * `quoted` is a name in quotes. `broken` is what the engine refuses: a wrong number, or the rest of a text whose
   * quote or comment is not closed. `unscanned` is the rest of a text with too many dollars (see `MAX_DOLLARS`).
   */
  kind: SqlTokenKind
  /** First and one-past-last position in the text, in UTF-16 units. */
  start: number
  end: number
  /** The text of the token; upper case for words, so that keywords compare directly. */
  text: string
}

/** Blanks of ASCII, and those of Unicode that the engine skips too. */
const SPACE = /[\s\u0085\u180e\ufeff]|\u200b|\u200c|\u200d|\u2060/
const WORD = /[A-Za-z0-9_$]+/y
const REST_OF_WORD = /[A-Za-z0-9_]+/y
const INTEGER = /\d(?:_?\d)*/y
const NUMBER = buildNumber()
/** `$tag$`, of a string that the same tag ends. */
const TAG = /\$\w*\$/y
/** Each may begin a here-document, whose end must be searched in all the text. */
const MAX_DOLLARS = 200
const TYPOGRAPHIC = new Map([['\u2018', '\u2019'], ['\u201c', '\u201d']])
/** What closes a string or name, by what opens it. */
const QUOTES = new Map([["'", "'"], ['"', '"'], ['`', '`'], ...TYPOGRAPHIC])

const ESCAPE = /\\(?:x([0-9A-Fa-f]{2})|([\s\S]))|''|""|``/g

const ESCAPES: Readonly<Record<string, string>> = {
  a: '\x07', b: '\b', e: '\x1b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', 0: '\0', N: ''
}

/** All tokens of a text, comments included. Positions are ascending; white space is no token. */
export function tokenizeSql (sql: string): SqlToken[] {
  return [...scanSqlTokens(sql)]
}

/** The same one by one, for texts whose end is data and must not be read. */
export function * scanSqlTokens (sql: string): Generator<SqlToken> {
  let at = 0
  let dollars = 0
  // The last token that is no comment.
  let before = ''
  while (at < sql.length) {
    const char = sql[at]!
    if (SPACE.test(char)) { at++; continue }
    const [kind, end] = char === '$' && ++dollars > MAX_DOLLARS
      ? ['unscanned' as const, sql.length]
      : scanToken(sql, at, before)
    const text = sql.slice(at, end)
    yield { kind, start: at, end, text: kind === 'word' ? text.toUpperCase() : text }
    at = end
    if (kind !== 'comment') before = text
  }
}

/** What a string or a quoted name stands for: without its quotes, and escapes undone. `x'41'` stays as it is. */
export function unquoteSql (text: string): string {
  const quote = text[0] ?? ''
  if (quote === '$') return text.replace(/^\$\w*\$/, '').replace(/\$\w*\$$/, '')
  if (!QUOTES.has(quote)) return text
  const inner = text.length > 1 && text.endsWith(QUOTES.get(quote)!) ? text.slice(1, -1) : text.slice(1)
  return TYPOGRAPHIC.has(quote) ? inner : unescapeSql(inner, quote)
}

/**
 * Undoes the escapes of a string's inside, which are those of format TSV, too.
 *
 * @param quote  A doubled one is one.
 */
export function unescapeSql (text: string, quote = ''): string {
  return text.replaceAll(ESCAPE, (whole, hex: string | undefined, char: string | undefined) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
    if (char === undefined) return whole[0] === quote ? quote : whole
    // The engine leaves an escape that it does not know: `'\d'` is a backslash and a d.
    return ESCAPES[char] ?? (/[\\'"`/=]/.test(char) ? char : whole)
  })
}

/** A text as a string literal. Only the quote and the backslash have a meaning inside one. */
export function quoteString (text: string): string {
  return `'${text.replaceAll(/[\\']/g, '\\$&')}'`
}

/** A text as the name of a table, a column, a database. */
export function quoteIdentifier (text: string): string {
  return `\`${text.replaceAll(/[\\`]/g, '\\$&')}\``
}

function scanToken (sql: string, at: number, before: string): [SqlTokenKind, number] {
  const char = sql[at]!
  const next = sql[at + 1] ?? ''
  if (char === '-' && next === '-') return ['comment', findLineEnd(sql, at)]
  if (char === '/' && next === '/') return ['comment', findLineEnd(sql, at)]
  if (char === '#' && (next === ' ' || next === '!')) return ['comment', findLineEnd(sql, at)]
  if (char === '/' && next === '*') return scanComment(sql, at)
  if (char === "'") return scanQuoted(sql, at, 'string')
  if (char === '"' || char === '`') return scanQuoted(sql, at, 'quoted')
  if (TYPOGRAPHIC.has(char)) return scanTypographic(sql, at, char)
  if (char === '$') return scanHereDocument(sql, at)
  if (next === "'" && 'xXbB'.includes(char)) return scanHexadecimal(sql, at)
  if (char >= '0' && char <= '9') return scanNumber(sql, at, before)
  const end = match(WORD, sql, at)
  return end > at ? ['word', end] : ['symbol', at + 1]
}

function findLineEnd (sql: string, at: number): number {
  const end = sql.indexOf('\n', at)
  return end === -1 ? sql.length : end
}

function scanComment (sql: string, at: number): [SqlTokenKind, number] {
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

function scanQuoted (sql: string, at: number, kind: SqlTokenKind): [SqlTokenKind, number] {
  const quote = sql[at]
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

function scanTypographic (sql: string, at: number, open: string): [SqlTokenKind, number] {
  const end = sql.indexOf(TYPOGRAPHIC.get(open)!, at + 1)
  if (end === -1) return ['broken', sql.length]
  return [open === '\u2018' ? 'string' : 'quoted', end + 1]
}

/** `$tag$ ... $tag$` is a string when it is closed; otherwise the dollar belongs to a word or stands alone. */
function scanHereDocument (sql: string, at: number): [SqlTokenKind, number] {
  const tagEnd = match(TAG, sql, at)
  if (tagEnd > at) {
    const tag = sql.slice(at, tagEnd)
    const close = sql.indexOf(tag, tagEnd)
    if (close !== -1) return ['string', close + tag.length]
  }
  const end = match(WORD, sql, at)
  return end === at + 1 ? ['symbol', end] : ['word', end]
}

function scanHexadecimal (sql: string, at: number): [SqlTokenKind, number] {
  let end = at + 2
  while (end < sql.length && /[0-9A-Fa-f]/.test(sql[end]!)) end++
  return sql[end] === "'" ? ['string', end + 1] : ['broken', sql.length]
}

/** A name may begin with digits; and after a point only digits count, so that `x.1.1` is an element of an element. */
function scanNumber (sql: string, at: number, before: string): [SqlTokenKind, number] {
  const numberEnd = match(before === '.' ? INTEGER : NUMBER, sql, at)
  const end = match(REST_OF_WORD, sql, numberEnd)
  if (end === numberEnd) return ['number', end]
  return [/^\w+$/.test(sql.slice(at, end)) ? 'word' : 'broken', end]
}

/** The end of a sticky pattern's match; where it began, when there is none. */
function match (pattern: RegExp, sql: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(sql) ? pattern.lastIndex : at
}

/** As the engine: `1_000.5e-3`, `0x1F.8p1`, `0b101`; exponents may lack their digits, and end no text. */
function buildNumber (): RegExp {
  const group = (digit: string): string => `${digit}(?:_?${digit})*`
  const exponent = (letter: string): string => `(?:[${letter}](?=[^])(?:[+-](?=[^]))?(?:${group('\\d')})?)?`
  const hex = group('[\\dA-Fa-f]')
  const digits = group('\\d')
  return new RegExp(`0[xX]${hex}(?:\\.(?:${hex})?)?${exponent('pP')}|` +
    `(?:0[bB](?=[01]))?${digits}(?:\\.(?:${digits})?)?${exponent('eE')}`, 'y')
}
