/**
 * What only the server knows, and the engine would get wrong: who the user is, which queries run, what a user may do.
 * Statements about these are rewritten, so that the engine's answer is the truth, in any format.
 */
import { statfsSync } from 'node:fs'
import { quoteIdentifier, quoteString, type SqlToken } from './sql-lexer.ts'
import type { User } from '../http/authenticate.ts'
import type { RunningQueries } from '../engine/running-queries.ts'
import type { QueryLog } from '../engine/server-database.ts'
import { readStatement, type Statement } from './read-statement.ts'

/** The engine knows one user, `default`, by all of these. */
const USER_FUNCTIONS = new Set(['CURRENTUSER', 'CURRENT_USER', 'USER', 'AUTHUSER', 'AUTHENTICATEDUSER', 'SESSION_USER'])
/** Where a name of the function's column would be lost, nothing else names the column. */
const ENDS_COLUMN = new Set(['', ',', ')', 'FROM', 'WHERE', 'FORMAT', 'SETTINGS', 'UNION', 'LIMIT', 'ORDER', 'GROUP'])

/** The SELECT in the place of `SHOW GRANTS` and `SHOW PROCESSLIST`; every other statement as it is. */
export function replaceShow (statement: Statement, user: User): Statement {
  const { text, format } = readCommand(statement)
  if (/^SHOW GRANTS( FOR CURRENT_USER)?$/.test(text)) return readStatement(selectGrants(user) + format)
  if (/^SHOW (FULL )?PROCESSLIST$/.test(text)) return readStatement(`SELECT * FROM system.processes ORDER BY elapsed DESC${format}`)
  return statement
}

/**
 * Carries out `KILL QUERY WHERE query_id = '...'`, as the engine has other ids, and `SYSTEM FLUSH LOGS`, and gives back
 * a SELECT of their answer; every other statement as it is.
 */
export async function replaceCommand (
  statement: Statement, { running, queryLog }: { running: RunningQueries, queryLog: QueryLog }
): Promise<Statement> {
  const { words, format } = readCommand(statement)
  if (words.slice(0, 3).join(' ') === 'SYSTEM FLUSH LOGS') {
    await queryLog.flush()
    return readStatement('SELECT 1 WHERE 0')
  }
  const id = statement.tokens[5]
  if (words.slice(0, 5).join(' ') !== 'KILL QUERY WHERE QUERY_ID =' || id?.kind !== 'string') return statement
  if (words.slice(6).some((word) => word !== 'ASYNC')) return statement
  const queryId = id.text.slice(1, -1)
  const killed = running.kill(queryId)
  return readStatement(`SELECT 'waiting' AS kill_status, ${quoteString(queryId)} AS query_id,
    ${quoteString(killed?.user ?? '')} AS user, ${quoteString(killed?.query ?? '')} AS query WHERE ${killed === undefined ? 0 : 1}${format}`)
}

/** Its words before a FORMAT clause, and that clause. */
function readCommand ({ tokens, format }: Statement): { words: string[], text: string, format: string } {
  const all = tokens.map(({ text }) => text)
  const words = format === undefined ? all : all.slice(0, all.lastIndexOf('FORMAT'))
  return { words, text: words.join(' '), format: format === undefined ? '' : ` FORMAT ${format.name}` }
}

/**
 * Puts the user's name in the place of `currentUser()`, and for the owner the server's view in the place of
 * `system.processes`; an analyst's has its own already, and shows what runs for analysts. The engine has no
 * `system.asynchronous_metrics`: monitors ask it how many files the disk has room for.
 *
 * @param engineDir  The engine's folder.
 */
export function fillServerFacts (statement: Statement, user: User, engineDir: string): Statement {
  // A table or view may keep the call: it means who asks, not who made it.
  if (statement.kind !== 'select') return statement
  const { sql, tokens } = statement
  const edits: Edits = []
  tokens.forEach((token, i) => {
    const [open, close, next] = tokens.slice(i + 1, i + 4)
    const isCall = token.kind === 'word' && USER_FUNCTIONS.has(token.text) && open?.text === '(' && close?.text === ')'
    if (isCall && tokens[i - 1]?.text !== '.') {
      const name = sql.slice(token.start, close.end)
      const alias = ENDS_COLUMN.has(next?.text ?? '') ? ` AS ${quoteIdentifier(name)}` : ''
      edits.push({ start: token.start, end: close.end, text: `(${quoteString(user)}${alias})` })
    }
    if (user === 'analyst') return
    const place = { start: token.start, end: tokens[i + 2]?.end ?? token.end }
    if (isSystemTable('processes', sql, tokens, i)) edits.push({ ...place, text: 'chdb_server.all_processes' })
    if (isSystemTable('asynchronous_metrics', sql, tokens, i)) edits.push({ ...place, text: selectMetrics(engineDir) })
  })
  return applyEdits(statement, edits)
}

type Edits = Array<{ start: number, end: number, text: string }>

/** Those metrics of a server that tell of files, by the names and in the columns that a server gives them. */
function selectMetrics (engineDir: string): string {
  const { files, ffree } = statfsSync(engineDir)
  return `(SELECT * FROM values('metric String, value Float64',
    ('FilesystemMainPathTotalINodes', ${files}), ('FilesystemMainPathUsedINodes', ${files - ffree})))`
}

function isSystemTable (name: string, sql: string, tokens: readonly SqlToken[], i: number): boolean {
  const [database, point, table] = tokens.slice(i, i + 3)
  const isName = nameOf(sql, database) === 'system' && point?.text === '.' && nameOf(sql, table) === name
  return isName && tokens[i - 1]?.text !== '.'
}

function nameOf (sql: string, token: SqlToken | undefined): string {
  if (token?.kind !== 'word' && token?.kind !== 'quoted') return ''
  return sql.slice(token.start, token.end).replace(/^([`"])(.*)\1$/s, '$2')
}

/** Tokens keep their texts, which is what is read of them from here on; the format moves with the text. */
function applyEdits (statement: Statement, edits: Edits): Statement {
  const { format } = statement
  const pieces: string[] = []
  let [at, by] = [0, 0]
  for (const { start, end, text } of edits) {
    pieces.push(statement.sql.slice(at, start), text)
    if (format !== undefined && format.start >= end) by += text.length - (end - start)
    at = end
  }
  const sql = pieces.join('') + statement.sql.slice(at)
  return { ...statement, sql, format: format && { ...format, start: format.start + by, end: format.end + by } }
}

/** As a server writes them: the owner may do everything, an analyst reads what the owner made. */
function selectGrants (user: User): string {
  if (user !== 'analyst') return `SELECT 'GRANT ALL ON *.* TO ${user}' AS GRANTS`
  return `SELECT concat('GRANT SHOW, SELECT ON ', name, '.* TO analyst') AS GRANTS FROM system.databases
    WHERE engine IN ('Atomic', 'Ordinary') AND name != 'chdb_server' ORDER BY name`
}
