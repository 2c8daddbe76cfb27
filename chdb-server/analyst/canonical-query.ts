import { isUtf8 } from 'node:buffer'
import { quoteString, scanSqlTokens, type SqlTokenKind, unescapeSql } from '../statement/sql-lexer.ts'
import type { SessionPool } from '../engine/session-pool.ts'
import type { SessionState } from '../engine/engine.ts'
import { QueryError } from '../http/query-errors.ts'

export interface CanonicalToken {
  kind: 'word' | 'quoted' | 'string' | 'number' | 'symbol'
  /** As written; of a quoted name what is between the quotes. */
  text: string
  start: number
  end: number
}

const PLAIN: SessionState = { database: 'default', settings: new Map() }
/** Where the owner's tables are. Every other engine of databases is the engine's own, or leads to files or servers. */
const DATABASES = "'Atomic', 'Ordinary'"

/**
 * Has the engine parse a query and write it down as it understood it: keywords in capitals, no comments, one kind of
 * quotes, every escape of a name undone. Texts are bytes as latin1, as a literal may hold any bytes. Nothing of the
 * query is run or resolved.
 *
 * It is done twice: a text that is not written the same way again would be read differently from how it was meant.
 *
 * @param pool  Sessions for this work alone, whose settings no client can change.
 * @throws the engine's syntax error; {QueryError} 62 for a query that is not stable.
 */
export async function canonicalize (pool: SessionPool, sql: string, signal: AbortSignal) {
  const [first = '', second, ownDatabases = '', otherDatabases = ''] = await askEngine(pool, signal, `
    SELECT formatQuerySingleLine(${quoteString(sql)}) AS first, ifNull(formatQuerySingleLineOrNull(first), '') AS second,
      ${joinNames(`engine IN (${DATABASES})`)}, ${joinNames(`engine NOT IN (${DATABASES})`)} FROM system.databases`)
  if (first !== second) throw new QueryError(62, 'Syntax error: the query is not understood; write it more plainly')
  return { text: first, ownDatabases: splitNames(ownDatabases), otherDatabases: splitNames(otherDatabases) }
}

/** Those of the names that the owner has given to functions (`CREATE FUNCTION`). */
export async function findOwnersFunctions (pool: SessionPool, names: string[], signal: AbortSignal): Promise<string[]> {
  const [found = ''] = await askEngine(pool, signal, `SELECT ${joinNames("origin = 'SQLUserDefined'")}
    FROM system.functions WHERE name IN (${names.map(quoteString).join()})`)
  return splitNames(found)
}

/** @returns the columns of the answer's only row. */
async function askEngine (pool: SessionPool, unwanted: AbortSignal, sql: string): Promise<string[]> {
  try {
    const { bytes } = await pool.lend(unwanted, PLAIN, async (session) => await session.run(sql, 'TSV'))
    return Buffer.from(bytes).toString('latin1').slice(0, -1).split('\t').map((text) => unescapeSql(text))
  } catch (error) {
    if (!(error instanceof Error)) throw error
    // The engine adds the statement in which its parser was called; nobody asked that.
    throw new Error(error.message.replace(/: In scope SELECT formatQuerySingleLine\([\s\S]*(?=\. \([A-Z_0-9]+\)[^()]*$)/, ''))
  }
}

/** A name may have any bytes. */
function joinNames (condition: string): string {
  return `arrayStringConcat(groupArrayIf(hex(name), ${condition}), ',')`
}

function splitNames (text: string): string[] {
  return text.split(',').filter(Boolean).map((digits) => Buffer.from(digits, 'hex').toString('latin1'))
}

/** How each token of a canonical query is written; no other kind of token is in one. */
const FORMS: Partial<Record<SqlTokenKind, RegExp>> = {
  string: /^'(?:[^'\\]|\\[\s\S])*'$/,
  // eslint-disable-next-line no-control-regex
  quoted: /^`[^`\\\x00-\x1f\x7f]+`$/,
  number: /^\d+(?:\.\d*)?(?:e[+-]?\d+)?$/,
  word: /^[A-Za-z_]\w*$/,
  symbol: /^[()[\]{},.:+\-*/%<>=!^?|]$/
}

/** What could make two tokens one, or a comment of them. Two names never touch, nor do a number and a name. */
const TOUCHING = /^(?:--|\/\/|\/\*|''|[\w'`$][\w'`$])$/

/**
 * Cuts a canonical query. Its writing is so regular that our tokenizer and the engine's cannot differ: what is not of
 * these few forms is refused.
 *
 * @throws {QueryError} 497 for an escape in a name, and for everything that is no token of a canonical query.
 */
export function lexCanonical (text: string): CanonicalToken[] {
  const tokens: CanonicalToken[] = []
  let at = 0
  for (const { kind, start, end } of scanSqlTokens(text)) {
    const written = text.slice(start, end)
    const touches = at === start && start > 0 && TOUCHING.test(text.slice(start - 1, start + 1))
    if (touches || !isBlank(text, at, start) || FORMS[kind]?.test(written) !== true) throw notUnderstood(text, at)
    const name = kind === 'quoted' ? written.slice(1, -1) : written
    tokens.push({ kind: kind as CanonicalToken['kind'], text: name, start, end })
    at = end
  }
  if (!isBlank(text, at, text.length)) throw notUnderstood(text, at)
  return tokens
}

/** Whether nothing but spaces stands there; the tokenizer skips other blanks too. */
function isBlank (text: string, start: number, end: number): boolean {
  return text.slice(start, end).replaceAll(' ', '') === ''
}

/** How a token stands in a statement that is sent to the engine: a string of UTF-16, whatever bytes the token has. */
export function writeToken (token: CanonicalToken): string {
  const text = quoted(token)
  const bytes = Buffer.from(text, 'latin1')
  if (isUtf8(bytes)) return bytes.toString()
  if (token.kind !== 'string') throw notUnderstood(text, 0)
  return text.replaceAll(/[\x80-\xff]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16)}`)
}

/** Tokens side by side as they stood, their bytes as latin1 unless `write` says otherwise. */
export function writeTokens (tokens: readonly CanonicalToken[], write = quoted): string {
  return tokens.map((token, i) => `${i > 0 && tokens[i - 1]!.end < token.start ? ' ' : ''}${write(token)}`).join('')
}

function quoted ({ kind, text }: CanonicalToken): string {
  return kind === 'quoted' ? `\`${text}\`` : text
}

function notUnderstood (text: string, at: number): QueryError {
  const what = Buffer.from(text.slice(at, at + 40), 'latin1').toString()
  return new QueryError(497, `analyst: Not understood, hence not allowed: ${what}`)
}
