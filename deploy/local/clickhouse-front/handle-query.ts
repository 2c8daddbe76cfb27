import { type IncomingMessage, type ServerResponse } from 'node:http'
import { Answer } from './answer.ts'
import { type User } from './authenticate.ts'
import { buildSelectInto } from './build-statement.ts'
import { type EngineSession, type SessionState } from './engine-session.ts'
import { FrontError, toErrorAnswer } from './errors.ts'
import { type Front } from './front.ts'
import { guardAnalyst } from './guard-analyst.ts'
import { parseRequest, type QueryRequest } from './parse-request.ts'
import { vetAnalystSettings } from './profiles.ts'
import { type QueryBody, readBody } from './read-body.ts'
import { readStatement, type Statement } from './read-statement.ts'
import { runInsert } from './run-insert.ts'
import { runSelect } from './run-select.ts'
import { type SessionPool } from './session-pool.ts'

/** A request with the place of its answer. */
export interface Exchange {
  request: IncomingMessage
  response: ServerResponse
  url: URL
}

/** One query on its way: who asks, for what, and where the answer goes. */
export interface Query {
  user: User
  request: QueryRequest
  state: SessionState
  answer: Answer
  /** Fires when the client has gone before the answer was complete. */
  signal: AbortSignal
}

type Work = (session: EngineSession) => Promise<void>

/** Runs the query of one request and answers it. Never throws: every error becomes an answer. */
export async function handleQuery (front: Front, user: User, exchange: Exchange): Promise<void> {
  const { request, response, url } = exchange
  const gone = new AbortController()
  response.on('close', () => { if (!response.writableFinished) gone.abort() })
  const answer = new Answer(request, response)
  try {
    const wishes = parseRequest(request, url)
    answer.compressionLevel = wishes.compressResponse ? wishes.compressionLevel : 0
    answer.setHeader('X-ClickHouse-Query-Id', wishes.queryId)
    const settings = user === 'analyst' ? vetAnalystSettings(wishes.settings) : wishes.settings
    const state = { database: wishes.database, settings }
    const signal = AbortSignal.any([gone.signal, front.stopReads.signal])
    const query = { user, request: wishes, state, answer, signal }
    const body = await readBody(request, wishes.queryInUrl)
    await withQueryId(front, wishes.queryId, async () => await runQuery(front, query, body))
  } catch (error) {
    const told = toErrorAnswer(error, front.engine.version)
    if (told.code === 1002) front.logger.error({ err: error }, 'query failed unexpectedly')
    answer.fail(told)
  }
}

async function runQuery (front: Front, query: Query, body: QueryBody): Promise<void> {
  if (body.kind === 'insert') {
    if (query.user === 'analyst') throw new FrontError(164, 'analyst: Cannot execute query in readonly mode')
    if (query.request.readOnlyMethod) throw readOnlyMethodError()
    await runInsert(front, query, body)
    return
  }
  const statement = readStatement(body.text)
  if (query.user === 'analyst') guardAnalyst(statement)
  if (query.request.readOnlyMethod && statement.kind === 'command') throw readOnlyMethodError()
  await withSession(front, query, statement, async (session) => {
    await session.setParams(query.request.params)
    if (statement.kind === 'select') await runRows(front, query, statement, session)
    else await runBuffered(front, query, statement, session)
  })
}

async function runRows (front: Front, query: Query, statement: Statement, session: EngineSession): Promise<void> {
  const format = chooseFormat(query, statement)
  setFormatHeaders(front, query, format)
  const pipe = front.pipes.pop()!
  try {
    const sql = buildSelectInto(statement, format, pipe.path)
    const { spool, killQuery } = front
    const { answer, signal, request: { waitEndOfQuery } } = query
    await runSelect({ session, sql, pipe, spool, answer, signal, waitEndOfQuery, killQuery })
  } finally {
    front.pipes.push(pipe)
  }
}

/** Statements with few rows or none. */
async function runBuffered (front: Front, query: Query, statement: Statement, session: EngineSession): Promise<void> {
  const { answer } = query
  const format = chooseFormat(query, statement)
  if (statement.kind !== 'show') session.dirty ||= statement.kind === 'session'
  const result = await session.run(statement.sql, format)
  setFormatHeaders(front, query, format)
  const { readRows, readBytes, elapsedSeconds } = result
  answer.start({ readRows, readBytes, writtenRows: 0, writtenBytes: 0, elapsedSeconds })
  await answer.write(result.bytes)
  answer.end()
}

async function withSession (front: Front, query: Query, statement: Statement, work: Work): Promise<void> {
  const pool = query.user === 'analyst' ? front.pools.analyst : front.pools.product
  const { session: wanted } = query.request
  await pool.enter(query.signal)
  try {
    // An analyst's session can keep nothing but its current database, which clients name in each request.
    if (wanted === undefined || query.user === 'analyst') await withPooledSession(pool, query, work)
    else await withNamedSession(front, pool, query, work)
  } finally {
    pool.leave()
  }
}

async function withPooledSession (pool: SessionPool, query: Query, work: Work): Promise<void> {
  const session = await pool.take(query.state)
  try {
    await work(session)
  } finally {
    pool.give(session)
  }
}

async function withNamedSession (front: Front, pool: SessionPool, query: Query, work: Work): Promise<void> {
  const wanted = query.request.session!
  const key = `${query.user} ${wanted.id}`
  const session = await front.named.take(key, wanted, async () => await pool.open(query.state))
  try {
    await session.moveTo(query.state)
    await work(session)
  } finally {
    front.named.give(key, wanted.timeoutSeconds)
  }
}

async function withQueryId (front: Front, id: string, work: () => Promise<void>): Promise<void> {
  if (front.running.has(id)) throw new FrontError(216, `Query with id = ${id} is already running`)
  front.running.add(id)
  try {
    await work()
  } finally {
    front.running.delete(id)
  }
}

function chooseFormat (query: Query, statement: Statement): string {
  const format = statement.format?.name ?? query.request.defaultFormat ?? 'TabSeparated'
  if (!/^[A-Za-z0-9_]+$/.test(format)) throw new FrontError(36, `Unknown format ${format}`)
  return format
}

function setFormatHeaders (front: Front, query: Query, format: string): void {
  query.answer.setHeader('X-ClickHouse-Format', format)
  query.answer.setHeader('X-ClickHouse-Timezone', query.state.settings.get('session_timezone') ?? front.engine.timezone)
  query.answer.setHeader('Content-Type', front.engine.contentTypes.get(format) ?? 'application/octet-stream')
}

function readOnlyMethodError (): FrontError {
  return new FrontError(164, 'Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. ' +
    'You should use method POST for modifying queries')
}
