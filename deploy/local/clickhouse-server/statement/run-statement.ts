import type { EngineSession } from '../engine/engine.ts'
import { QueryError } from '../errors.ts'
import type { ServerParts } from '../start-server.ts'
import { type Query, readOnlyMethodError } from '../server.ts'
import { summarizeRows } from '../answer.ts'
import { withSession } from '../engine/lend-session.ts'
import { buildSelectInto, checkParams, fillParams, readStatement, type Statement } from './statement.ts'
import { runSelect } from './run-select.ts'
import { quoteString } from '../../../../schema/clickhouse-sql.ts'

const MAKES_TABLES = new Set(['ATTACH', 'RESTORE', 'REPLACE', 'UNDROP'])

/** Runs a statement without inline rows: what it is decides how. */
export async function runStatement (parts: ServerParts, query: Query, text: string): Promise<void> {
  let statement = readStatement(text)
  query.record.kind = statement.tokens[0]!.text
  checkParams(statement.sql, statement.tokens, query.request.params)
  query.record.query = fillParams(text, statement.tokens, query.request.params)
  if (query.user === 'analyst') statement = await guard(parts, query, statement)
  if (query.request.readOnlyMethod && statement.kind === 'command') throw readOnlyMethodError()
  statement = await replaceServerCommand(parts, statement)

  const pool = query.user === 'analyst' ? parts.pools.analyst : parts.pools.product
  await withSession(parts, query, pool, async (session) => {
    await session.setParams(query.request.params)
    await parts.progress.during(session, query.record, async () => {
      if (statement.kind === 'select') await runRows(parts, query, statement, session)
      else await runBuffered(parts, query, statement, session)
    })
  })
}

async function guard (parts: ServerParts, query: Query, statement: Statement): Promise<Statement> {
  const { request: { params, defaultFormat }, state: { database }, stops: { unwanted: { signal } } } = query
  return await parts.guardAnalyst({ statement, params, database, defaultFormat, signal })
}

async function runRows (parts: ServerParts, query: Query, statement: Statement, session: EngineSession): Promise<void> {
  const format = chooseFormat(query, statement)
  setFormatHeaders(parts, query, format)
  const pipe = parts.pipes.pop()!
  try {
    const sql = buildSelectInto(statement, format, pipe.path)
    const { spool, killQuery } = parts
    const { answer, record, request: { waitEndOfQuery } } = query
    const { signal } = query.stops.unwanted
    await runSelect({ session, sql, pipe, spool, answer, record, signal, waitEndOfQuery, killQuery })
  } finally {
    parts.pipes.push(pipe)
  }
}

/** Statements with few rows or none. Like a server, only reads are ended when their client goes away. */
async function runBuffered (
  parts: ServerParts, query: Query, statement: Statement, session: EngineSession
): Promise<void> {
  const { answer } = query
  const format = chooseFormat(query, statement)
  session.dirty ||= statement.kind === 'session'
  const { signal } = statement.kind === 'show' ? query.stops.unwanted : query.stops.killed
  const result = await parts.killQuery.whenAborted(session, signal, session.run(statement.sql, format))
  if (statement.kind === 'command') await coverTokens(parts, statement)
  setFormatHeaders(parts, query, format)
  answer.start(summarizeRows(query.record, result))
  await answer.write(result.bytes)
  answer.end()
}

/** After a statement that made tables with a memory of tokens, or gave one to a table, or inserted. */
async function coverTokens (parts: ServerParts, { sql, tokens }: Statement): Promise<void> {
  const first = tokens[0]?.text ?? ''
  const setsWindow = sql.includes('deduplication_window')
  // CREATE TABLE ... AS another table has the settings of that one.
  if (setsWindow || MAKES_TABLES.has(first) || (first === 'CREATE' && /\bAS\b(?!\s*\(?\s*(SELECT|WITH)\b)/i.test(sql))) {
    await parts.tokens.cover({ again: first === 'ALTER' })
  }
  if (tokens.some(({ text }) => text === 'INSERT')) await parts.tokens.flush()
}

function chooseFormat (query: Query, statement: Statement): string {
  const format = statement.format?.name ?? query.request.defaultFormat ?? 'TabSeparated'
  if (!/^\w{1,64}$/.test(format)) throw new QueryError(36, `Format name '${format}' is not valid`)
  return format
}

function setFormatHeaders (parts: ServerParts, query: Query, format: string): void {
  const timezone = query.state.settings.get('session_timezone')
  query.answer.setHeader('X-ClickHouse-Format', format)
  query.answer.setHeader('X-ClickHouse-Timezone', timezone ?? parts.engine.timezone)
  query.answer.setHeader('Content-Type', parts.engine.contentTypes.get(format) ?? 'application/octet-stream')
}

/**
 * Carries out the commands that concern what only the server knows, and puts a SELECT of their answer in their place:
 * `KILL QUERY WHERE query_id = '...'` (the engine has other ids) and `SYSTEM FLUSH LOGS`.
 */
async function replaceServerCommand (parts: ServerParts, statement: Statement): Promise<Statement> {
  const { tokens } = statement
  const words = tokens.map((token) => token.text)
  if (words.slice(0, 3).join(' ') === 'SYSTEM FLUSH LOGS') {
    await parts.queryLog.flush()
    return readStatement('SELECT 1 WHERE 0')
  }
  const id = tokens[5]
  if (words.slice(0, 5).join(' ') !== 'KILL QUERY WHERE QUERY_ID =' || id?.kind !== 'string') return statement
  const rest = words.slice(6).filter((word, i) => i > 0 || word !== 'ASYNC')
  if (rest.length > 0 && rest[0] !== 'FORMAT') return statement

  const queryId = id.text.slice(1, -1)
  const killed = parts.running.kill(queryId)
  const found = killed === undefined ? 0 : 1
  const format = statement.format === undefined ? '' : `FORMAT ${statement.format.name}`
  return readStatement(`SELECT 'waiting' AS kill_status, ${quoteString(queryId)} AS query_id,
    ${quoteString(killed?.user ?? '')} AS user, ${quoteString(killed?.query ?? '')} AS query WHERE ${found} ${format}`)
}
