import { type IncomingMessage, type ServerResponse } from 'node:http'
import { Answer } from './answer.ts'
import { type User } from './request/authenticate.ts'
import { type SessionState } from './engine/engine-session.ts'
import { FrontError, toErrorAnswer } from './errors.ts'
import { type Front } from './front.ts'
import { analystDatabase } from './analyst/guard-analyst.ts'
import { parseRequest, type QueryRequest } from './request/parse-request.ts'
import { vetAnalystSettings } from './engine/profiles.ts'
import { type QueryRecord } from './watch/query-log.ts'
import { readBody } from './request/read-body.ts'
import { runInsert } from './insert/run-insert.ts'
import { runStatement } from './statement/run-statement.ts'
import { type Stops } from './watch/running-queries.ts'

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
  stops: Stops
  /** What the query log will tell; filled in on the way. */
  record: QueryRecord
}

/** Runs the query of one request and answers it. Never throws: every error becomes an answer. */
export async function handleQuery (front: Front, user: User, exchange: Exchange): Promise<void> {
  const { request, response, url } = exchange
  const startedAt = performance.now()
  const stops = { unwanted: new AbortController(), killed: new AbortController() }
  response.on('close', () => { if (!response.writableFinished) stops.unwanted.abort() })
  const answer = new Answer(request, response)
  const record = startRecord(user, request)
  try {
    const wishes = parseRequest(request, url)
    answer.setHeader('X-ClickHouse-Query-Id', wishes.queryId)
    answer.compressionLevel = wishes.compressResponse ? wishes.compressionLevel : 0
    Object.assign(record, { queryId: wishes.queryId, database: wishes.database, logComment: wishes.logComment })
    const state = user === 'analyst' ? vetState(front, wishes) : { database: wishes.database, settings: wishes.settings }
    record.database = state.database
    await front.running.during(wishes.queryId, record, stops, async () => {
      await runQuery(front, { user, request: wishes, state, answer, stops, record }, request)
    })
  } catch (error) {
    const told = toErrorAnswer(error, front.engine.version)
    if (told.code === 1002) front.logger.error({ err: error }, 'query failed unexpectedly')
    Object.assign(record, { exceptionCode: told.code, exception: told.text.trimEnd() })
    answer.fail(told)
  }
  front.queryLog.add({ ...record, resultBytes: answer.bytes, durationMs: performance.now() - startedAt })
}

function startRecord (user: User, request: IncomingMessage): QueryRecord {
  return {
    startedAt: new Date(),
    durationMs: 0,
    user,
    query: '',
    kind: '',
    queryId: '',
    database: '',
    readRows: 0,
    readBytes: 0,
    memoryUsage: 0,
    resultRows: 0,
    writtenRows: 0,
    resultBytes: 0,
    exceptionCode: 0,
    exception: '',
    userAgent: request.headers['user-agent'] ?? '',
    logComment: ''
  }
}

function vetState (front: Front, wishes: QueryRequest): SessionState {
  return { database: analystDatabase(wishes.database), settings: vetAnalystSettings(wishes.settings, front.allowList) }
}

async function runQuery (front: Front, query: Query, request: IncomingMessage): Promise<void> {
  const body = await readBody(request, query.request.queryInUrl)
  if (body.kind === 'statement') {
    query.record.query = body.text
    await runStatement(front, query, body.text)
    return
  }
  Object.assign(query.record, { query: `${body.head} ${body.settings} FORMAT ${body.format}`, kind: 'INSERT' })
  if (query.user === 'analyst') throw new FrontError(164, 'analyst: Cannot execute query in readonly mode')
  if (query.request.readOnlyMethod) throw readOnlyMethodError()
  await runInsert(front, query, body)
}

export function readOnlyMethodError (): FrontError {
  return new FrontError(164, 'Cannot execute query in readonly mode. For queries over HTTP, method GET implies ' +
    'readonly. You should use method POST for modifying queries')
}
