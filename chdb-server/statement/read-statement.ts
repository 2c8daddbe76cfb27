/** A statement without rows: what kind it is, its format, its parameters, and where its result goes. */
import { quoteString, type SqlToken, tokenizeSql, unescapeSql, unquoteSql } from './sql-lexer.ts'
import { QueryError } from '../http/query-errors.ts'

/** What a statement is, as far as the server must know to run it the right way. */
export interface Statement {
  /** The text without its closing semicolon. */
  sql: string
  /** Without comments. */
  tokens: SqlToken[]
  /**
   * `select` produces rows and is streamed; `show` produces few rows (SHOW, DESCRIBE, EXPLAIN, EXISTS, CHECK);
   * `session` changes the session (SET, USE, temporary tables); `command` is everything else.
   */
  kind: 'select' | 'show' | 'session' | 'command'
  /** The last FORMAT clause, when there is one. */
  format: { name: string, start: number, end: number } | undefined
}

export interface InsertParts {
  /** `INSERT INTO t [(columns)]`, as the client wrote it. */
  head: string
  /** The client's SETTINGS clause, which the grammar wants between file and format. */
  settings: string
  format: string
}

const SHOW = new Set(['SHOW', 'DESCRIBE', 'DESC', 'EXPLAIN', 'EXISTS', 'CHECK'])
const TRANSACTION = new Set(['BEGIN', 'COMMIT', 'ROLLBACK'])

/** Types whose values stand in SQL as they are sent. */
const PLAIN = /^(U?INT\d+|FLOAT\d+|DECIMAL\w*|BOOL|IDENTIFIER|ARRAY|MAP|TUPLE)$/

/**
 * The compressions the engine may undo while it reads a file, by the name HTTP has for them. Not Brotli: its decoder
 * of 26.7 writes past its buffer (CVE-2026-116366).
 */
export const ENGINE_COMPRESSIONS: ReadonlyMap<string, string> = new Map(Object.entries({
  gzip: 'gzip', 'x-gzip': 'gzip', deflate: 'deflate', zstd: 'zstd', xz: 'xz', lz4: 'lz4', snappy: 'snappy'
}))

/**
 * Reads a statement that carries no inline data.
 *
 * @throws {QueryError} 62 for an empty statement, several statements, and texts the engine would take as commands of
 *   its console (`exit`); 344 for what would let a client reach the files of this machine, or end this process.
 */
export function readStatement (text: string): Statement {
  const all = tokenizeSql(text).filter((token) => token.kind !== 'comment')
  if (all.at(-1)?.kind === 'unscanned') throw new QueryError(62, 'Syntax error: too many words begin with $')
  const semicolon = all.findIndex((token) => token.text === ';')
  const tokens = semicolon === -1 ? all : all.slice(0, semicolon)
  const extra = semicolon === -1 ? undefined : all.slice(semicolon).find((token) => token.text !== ';')
  if (extra !== undefined) {
    throw new QueryError(62, `Syntax error (Multi-statements are not allowed): failed at position ${extra.start + 1} (${extra.text})`)
  }
  const first = tokens[0]
  if (first === undefined) throw new QueryError(62, 'Empty query')
  const isConsoleCommand = tokens.length === 1 && !TRANSACTION.has(first.text)
  if (isConsoleCommand || (first.kind !== 'word' && first.text !== '(')) {
    throw new QueryError(62, `Syntax error: failed at position ${first.start + 1} (${text.slice(first.start, first.end)})`)
  }
  refuseDangerous(tokens)
  const sql = semicolon === -1 ? text : text.slice(0, all[semicolon]!.start)
  return { sql, tokens, kind: classify(tokens), format: findFormat(tokens, sql) }
}

/**
 * A SELECT whose rows go into a file of the server's own. APPEND, because the engine would write anything else to a
 * temporary name first, which is no pipe.
 */
export function buildSelectInto (statement: Statement, format: string, path: string): string {
  const { sql } = statement
  const into = `\nINTO OUTFILE ${quoteString(path)} APPEND FORMAT ${format}\n`
  if (statement.format === undefined) return sql + into
  return sql.slice(0, statement.format.start) + into + sql.slice(statement.format.end)
}

/** The statement for another format than its own. */
export function withoutFormat ({ sql, format }: Statement): string {
  return format === undefined ? sql : sql.slice(0, format.start) + sql.slice(format.end)
}

/**
 * An INSERT whose rows are in a file of the server's own.
 *
 * @param compression  The engine's name of the compression of the file, or `none`.
 */
export function buildInsertFrom (insert: InsertParts, path: string, compression: string): string {
  const { head, settings, format } = insert
  return `${head}\nFROM INFILE ${quoteString(path)} COMPRESSION ${quoteString(compression)}\n${settings}\nFORMAT ${format}`
}

/**
 * Refuses a statement that names a parameter (`{name:Type}`) the request does not give.
 *
 * The engine would say the same, but its sessions are shared: a parameter that an earlier request left there must not
 * be seen by a later one.
 *
 * @throws {QueryError} 456 for a parameter without a value, 36 for a value whose name cannot be one.
 */
export function checkParams (sql: string, tokens: readonly SqlToken[], params: ReadonlyMap<string, string>): void {
  for (const name of params.keys()) {
    if (!/^\w{1,128}$/.test(name)) throw new QueryError(36, `Query parameter name '${name}' is not valid`)
  }
  for (const { name } of findParams(sql, tokens)) {
    if (!params.has(name)) throw new QueryError(456, `Query parameter \`${name}\` was not set`)
  }
}

/** The places of parameters; `type` has the first tokens of the type, and `end` is missing where no bracket closes. */
export function findParams (sql: string, tokens: readonly SqlToken[]) {
  let close = 0
  return tokens.flatMap(({ text, start }, i) => {
    if (text !== '{') return []
    const [name, colon, ...type] = tokens.slice(i + 1, i + 6)
    if (name?.kind !== 'word' || colon?.text !== ':') return []
    close = Math.max(close, i + 4)
    while (close < tokens.length && tokens[close]?.text !== '}') close++
    const end = tokens[close]?.end
    return [{ name: sql.slice(name.start, name.end), type: type.map(({ text }) => text), start, end }]
  })
}

/** As much as the query log keeps, in characters. Each place of a parameter may stand for a much longer value. */
export const LOGGED_CHARACTERS = 16_384

/**
 * The statement with the values of its parameters in their places, as a server writes it into its log; behind what the
 * log keeps, they stay as they are written. To be read and counted: it is never run.
 */
export function fillParams (sql: string, tokens: readonly SqlToken[], params: ReadonlyMap<string, string>): string {
  let text = ''
  let at = 0
  for (const { name, type, start, end } of findParams(sql, tokens)) {
    const value = params.get(name)
    if (text.length > LOGGED_CHARACTERS) break
    if (end === undefined || value === undefined) continue
    text += sql.slice(at, start) + (PLAIN.test(type[0] ?? '') ? value : quoteString(unescapeSql(value)))
    at = end
  }
  return text + sql.slice(at)
}

function classify (tokens: SqlToken[]): Statement['kind'] {
  const first = tokens[0]!.text
  if (SHOW.has(first)) return 'show'
  // It ends with its session.
  const isTemporary = ['TABLE', 'VIEW', 'DICTIONARY'].some((kind) => hasSequence(tokens, 'TEMPORARY', kind))
  if (first === 'SET' || first === 'USE' || isTemporary) return 'session'
  if (first === 'SELECT' || first === 'FROM' || first === '(') return 'select'
  // WITH may introduce an INSERT ... SELECT.
  if (first === 'WITH' && !hasSequence(tokens, 'INSERT', 'INTO')) return 'select'
  return 'command'
}

/**
 * The engine runs these inside this process, with the rights of this process: files anywhere on the machine. On a
 * server INFILE and OUTFILE belong to the command line client, and SYSTEM SHUTDOWN ends a process that is restarted.
 */
function refuseDangerous (tokens: SqlToken[]): void {
  if (hasSequence(tokens, 'INTO', 'OUTFILE')) throw new QueryError(344, 'INTO OUTFILE is not allowed')
  if (hasSequence(tokens, 'FROM', 'INFILE')) throw new QueryError(344, 'FROM INFILE is not allowed')
  // Its rows would be text of the statement, which the engine's console may run as statements of their own.
  if (tokens[0]!.text === 'INSERT' && hasSequence(tokens, 'INPUT', '(')) {
    throw new QueryError(344, 'INSERT ... SELECT FROM input(...) is not supported; insert into a table')
  }
  if (hasSequence(tokens, 'SYSTEM', 'SHUTDOWN') || hasSequence(tokens, 'SYSTEM', 'KILL')) {
    throw new QueryError(344, 'SYSTEM SHUTDOWN is not allowed: stop the process that holds the engine')
  }
  // KILL ... SYNC waits for the killed query inside the engine, which can hang the process (it did).
  if (tokens[0]!.text === 'KILL' && tokens.some((token) => token.text === 'SYNC')) {
    throw new QueryError(344, 'KILL ... SYNC is not supported; use ASYNC')
  }
}

/** Whether two words follow each other anywhere in the statement. */
function hasSequence (tokens: readonly SqlToken[], first: string, second: string): boolean {
  return tokens.some((token, i) => token.kind === 'word' && token.text === first && tokens[i + 1]?.text === second)
}

/** FORMAT is not reserved: it counts only as the last clause, or before a last SETTINGS. */
function findFormat (tokens: SqlToken[], sql: string): Statement['format'] {
  const at = tokens.findLastIndex((token, i) => token.kind === 'word' && token.text === 'FORMAT' &&
    ['word', 'quoted'].includes(tokens[i + 1]?.kind ?? '') && !['AS', '.'].includes(tokens[i - 1]?.text ?? 'AS'))
  const name = tokens[at + 1]
  const after = tokens[at + 2]
  if (at === -1 || name === undefined || (after !== undefined && after.text !== 'SETTINGS')) return undefined
  return { name: unquoteSql(sql.slice(name.start, name.end)), start: tokens[at]!.start, end: name.end }
}
