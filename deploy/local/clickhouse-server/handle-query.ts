import { type IncomingMessage, type ServerResponse } from 'node:http'
import { Answer } from './answer.ts'
import { type User } from './request/authenticate.ts'
import { type SessionState } from './engine/engine-session.ts'
import { QueryError, toErrorAnswer } from './errors.ts'
import { type ServerParts } from './server-parts.ts'
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
export async function handleQuery (parts: ServerParts, user: User, exchange: Exchange): Promise<void> {
  const { request, response, url } = exchange
  const startedAt = performance.now()
  const stops = { unwanted: new AbortController(), killed: new AbortController() }
  response.on('close', () => { if (!response.writableFinished) stops.unwanted.abort() })
  const answer = new Answer(request, response)
  const record = startRecord(user, request)
  try {
    const params = parseRequest(request, url)
    answer.setHeader('X-ClickHouse-Query-Id', params.queryId)
    answer.compressionLevel = params.compressResponse ? params.compressionLevel : 0
    Object.assign(record, { queryId: params.queryId, database: params.database, logComment: params.logComment })
    const state = user === 'analyst' ? vetState(parts, params) : { database: params.database, settings: params.settings }
    record.database = state.database
    await parts.running.during(params.queryId, record, stops, async () => {
      await runQuery(parts, { user, request: params, state, answer, stops, record }, request)
    })
  } catch (error) {
    const told = toErrorAnswer(error, parts.engine.version)
    if (told.code === 1002) parts.logger.error({ err: error }, 'query failed unexpectedly')
    Object.assign(record, { exceptionCode: told.code, exception: told.text.trimEnd() })
    answer.fail(told)
  }
  parts.queryLog.add({ ...record, resultBytes: answer.bytes, durationMs: performance.now() - startedAt })
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

function vetState (parts: ServerParts, params: QueryRequest): SessionState {
  return { database: analystDatabase(params.database), settings: vetAnalystSettings(params.settings, parts.allowList) }
}

async function runQuery (parts: ServerParts, query: Query, request: IncomingMessage): Promise<void> {
  const body = await readBody(request, query.request.queryInUrl)
  if (body.kind === 'statement') {
    query.record.query = body.text
    await runStatement(parts, query, body.text)
    return
  }
  Object.assign(query.record, { query: `${body.head} ${body.settings} FORMAT ${body.format}`, kind: 'INSERT' })
  if (query.user === 'analyst') throw new QueryError(164, 'analyst: Cannot execute query in readonly mode')
  if (query.request.readOnlyMethod) throw readOnlyMethodError()
  await runInsert(parts, query, body)
}

export function readOnlyMethodError (): QueryError {
  return new QueryError(164, 'Cannot execute query in readonly mode. For queries over HTTP, method GET implies ' +
    'readonly. You should use method POST for modifying queries')
}
