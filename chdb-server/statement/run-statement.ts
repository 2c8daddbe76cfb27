import type { EngineResult, EngineSession } from '../engine/engine.ts'
import { QueryError, readOnlyMethodError } from '../http/query-errors.ts'
import { ANALYST_PROFILE } from '../engine/profiles.ts'
import { OVERDUE_MS } from '../engine/session-pool.ts'
import type { TokenFlusher } from '../insert/flush-tokens.ts'
import type { Query, ServerParts } from '../server-parts.ts'
import { summarize } from '../engine/query-record.ts'
import { type Column, createNativeWriter } from '../http/native-blocks.ts'
import { failsOnZonedTime, normalizeTimes, WITHOUT_INDEXES } from './adapt-to-engine.ts'
import { buildSelectInto, checkParams, fillParams, readStatement, type Statement, withoutFormat } from './read-statement.ts'
import { runSelect } from './run-select.ts'
import { fillServerFacts, replaceCommand, replaceShow } from './server-facts.ts'

/** Servers hold back the first mebibyte too: an error found within it still gets its own status. */
const HOLD_BYTES = 1_048_576

/** How long a query may go on in the engine after its limit. With what a restart takes, it ends within five seconds. */
const RESTART_AFTER_MS = 2500

const MAKES_TABLES = new Set(['ATTACH', 'RESTORE', 'REPLACE', 'UNDROP'])

/** Runs a statement without inline rows: what it is decides how. */
export async function runStatement (parts: ServerParts, query: Query, text: string): Promise<void> {
  let statement = readStatement(text)
  query.record.queryKind = statement.tokens[0]!.text
  checkParams(statement.sql, statement.tokens, query.request.params)
  query.record.query = fillParams(text, statement.tokens, query.request.params)
  const params = normalizeTimes(statement.sql, statement.tokens, query.request.params)
  statement = replaceShow(statement, query.user)
  if (query.user === 'analyst') {
    parts.queries.endedQueries.refuse(query.record.query)
    statement = await guard(parts, query, statement)
  }
  if (query.request.readOnlyMethod && statement.kind === 'command') throw readOnlyMethodError()
  if (query.request.isInSession && statement.kind === 'session') {
    throw new QueryError(48, 'Sessions are not kept: what SET, USE or CREATE TEMPORARY did would be lost with this request. ' +
      'Send settings and the database with each request, and use a table or WITH')
  }
  statement = fillServerFacts(await replaceCommand(statement, parts.queries), query.user, parts.storage.engine.dir)

  query.isRead = statement.kind === 'select' || statement.kind === 'show'
  const pool = query.user === 'analyst' ? parts.storage.pools.analyst : parts.storage.pools.owner
  const run = async (): Promise<void> => await pool.lend(query.stops.unwanted.signal, query.state, async (session) => {
    const endWatch = query.user === 'analyst' ? endOvertime(query, session, () => parts.queries.restart(query.record)) : undefined
    try {
      await session.setParams(params)
      query.record.mark = session.mark
      if (/processes/i.test(statement.sql)) parts.queries.processes.write()
      await parts.queries.progress.during(session, query.record, async () => {
        if (statement.kind === 'select') await runRows(parts, query, statement, session)
        else await runBuffered(parts, query, statement, session)
      })
    } finally {
      endWatch?.()
    }
  })
  try {
    await run()
  } catch (error) {
    if (!query.isRead || query.answer.started || !failsOnZonedTime(error)) throw error
    query.state = { ...query.state, settings: new Map([...query.state.settings, ...WITHOUT_INDEXES]) }
    await run()
  }
}

/**
 * Ends a query that is over its time. The engine looks for that between two blocks of rows, and one block, or a
 * constant, may take long: first the query is killed and its client has its answer, then the process is restarted.
 *
 * @param restart  The last resort, for a query that is still at work.
 * @returns what ends the watch.
 */
function endOvertime ({ state, stops }: Query, session: EngineSession, restart: () => void): () => void {
  const limitMs = 1000 * Number(state.settings.get('max_execution_time') ?? ANALYST_PROFILE.max_execution_time)
  const whenRunning = (afterMs: number, act: () => void): NodeJS.Timeout =>
    setTimeout(() => { if (session.isRunning) act() }, limitMs + afterMs)
  const timers = [
    whenRunning(OVERDUE_MS, () => stops.unwanted.abort(new QueryError(159, `Timeout exceeded: maximum: ${limitMs} ms`))),
    whenRunning(RESTART_AFTER_MS, restart)
  ]
  return () => timers.forEach(clearTimeout)
}

async function guard (parts: ServerParts, query: Query, statement: Statement): Promise<Statement> {
  const { request: { params, defaultFormat }, state: { database }, stops: { unwanted: { signal } } } = query
  const guarded = await parts.gate.guardAnalyst({ statement, params, database, defaultFormat, signal })
  // A session that only reads takes no settings any more: those of the statement are brought in before, like the URL's.
  query.state = { database, settings: new Map([...query.state.settings, ...guarded.settings]) }
  return guarded.statement
}

async function runRows (parts: ServerParts, query: Query, statement: Statement, session: EngineSession): Promise<void> {
  const format = chooseFormat(query, statement)
  setFormatHeaders(parts, query, format)
  const pipe = parts.storage.pipes.pop()!
  try {
    const columns = isRevised(query, format) ? await readColumns(session, statement) : undefined
    const rewrite = columns && createNativeWriter(columns, query.request.protocolVersion)
    const sql = buildSelectInto(statement, columns === undefined ? format : 'Buffers', pipe.path)
    const holdBytes = format.endsWith('WithProgress') ? 0 : HOLD_BYTES
    await runSelect(parts, query, { session, sql, pipe, rewrite, holdBytes })
  } finally {
    parts.storage.pipes.push(pipe)
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
  const columns = statement.kind === 'show' && isRevised(query, format) ? await readColumns(session, statement) : undefined
  const [sql, engineFormat] = columns === undefined ? [statement.sql, format] : [withoutFormat(statement), 'Buffers']
  const runIt = async (): Promise<EngineResult> =>
    await parts.queries.killQuery.whenAborted(session, signal, session.run(sql, engineFormat))
  const result = statement.kind === 'command' ? await runCommand(parts, { query, statement }, runIt) : await runIt()
  // What has no result has no format.
  if (statement.kind !== 'show' && result.bytes.length === 0) answer.setHeader('Content-Type', 'text/plain; charset=UTF-8')
  else setFormatHeaders(parts, query, format)
  const pieces = columns === undefined
    ? [result.bytes]
    : createNativeWriter(columns, query.request.protocolVersion)(result.bytes)
  answer.start(summarize(query.record, result))
  for (const piece of pieces) await answer.write(piece)
  await answer.end()
}

/** Runs what may write; when it resolves, all that it wrote is on the disk. */
async function runCommand (
  parts: ServerParts, { query, statement }: { query: Query, statement: Statement }, run: () => Promise<EngineResult>
): Promise<EngineResult> {
  const { definitions, failedWrites, tokens } = parts.storage
  return await definitions.during({ tokens: statement.tokens, database: query.state.database }, async () => {
    try {
      return await run()
    } finally {
      await coverTokens(tokens, statement)
      await failedWrites.check()
    }
  })
}

/** After a statement that made tables with a memory of tokens, or gave one to a table, or inserted. */
async function coverTokens (flusher: TokenFlusher, { sql, tokens }: Statement): Promise<void> {
  const first = tokens[0]?.text ?? ''
  const setsWindow = sql.includes('deduplication_window')
  // CREATE TABLE ... AS another table has the settings of that one.
  if (setsWindow || MAKES_TABLES.has(first) || (first === 'CREATE' && /\bAS\b(?!\s*\(?\s*(SELECT|WITH)\b)/i.test(sql))) {
    await flusher.cover({ again: first === 'ALTER' })
  }
  if (tokens.some(({ text }) => text === 'INSERT')) await flusher.flush()
}

function chooseFormat (query: Query, statement: Statement): string {
  const format = statement.format?.name ?? query.request.defaultFormat ?? 'TSV'
  if (!/^\w{1,64}$/.test(format)) throw new QueryError(36, `Format name '${format}' is not valid`)
  return format
}

/** Whether the client wants Native in its own revision. */
function isRevised ({ request: { protocolVersion } }: Query, format: string): boolean {
  return protocolVersion > 0 && format === 'Native'
}

/** A SELECT is described, and not run; what else gives rows gives few, and runs twice. */
async function readColumns (session: EngineSession, statement: Statement): Promise<Column[]> {
  const sql = withoutFormat(statement)
  if (statement.kind === 'select') return await session.rows<Column>(`DESCRIBE (\n${sql}\n)`)
  const { bytes } = await session.run(sql, 'JSONCompact')
  return (JSON.parse(Buffer.from(bytes).toString()) as { meta: Column[] }).meta
}

function setFormatHeaders (parts: ServerParts, query: Query, format: string): void {
  query.answer.setHeader('X-ClickHouse-Format', format)
  query.answer.setHeader('Content-Type', parts.storage.engine.contentTypes.get(format) ?? 'application/octet-stream')
}
