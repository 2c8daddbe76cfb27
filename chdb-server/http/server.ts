/** ClickHouse's HTTP interface: what a request asks for, and the steps of a query from request to answer. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { createAuthenticate, type User } from './authenticate.ts'
import { type ErrorAnswer, QueryError, readOnlyMethodError, toErrorAnswer } from './query-errors.ts'
import type { Query, ServerParts } from '../server-parts.ts'
import { holdInserts, runInsert } from '../insert/run-insert.ts'
import { Answer } from './answer.ts'
import { analystDatabase } from '../analyst/guard-analyst.ts'
import { parseRequest } from './parse-request.ts'
import { maxStatementBytes, vetAnalystSettings } from '../engine/profiles.ts'
import { OVERDUE_MS } from '../engine/session-pool.ts'
import { startRecord, writeProgress } from '../engine/query-record.ts'
import { readBody } from './read-query-body.ts'
import { formType, readForm } from './read-form.ts'
import { runStatement } from '../statement/run-statement.ts'

/** Of those, pages of another origin may read, in the order in which a server names them. */
const EXPOSED_HEADERS = ['Query-Id', 'Summary', 'Server-Display-Name', 'Format', 'Timezone', 'Exception-Code', 'Exception-Tag']
  .map((name) => `X-ClickHouse-${name}`).join(',')

/**
 * ClickHouse's HTTP interface: `/ping` and `/replicas_status` for health, `/` for queries. Beside it `/hold-inserts`,
 * for backups.
 */
export function createAnswerRequest (parts: ServerParts): RequestListener {
  const authenticate = createAuthenticate(parts.gate.logins)
  return (request, response) => {
    // The steps that read and write notice a client that disconnects.
    request.on('error', () => {})
    response.on('error', () => {})
    try {
      answerRequest(request, response)
    } catch (error) {
      sendError(response, error)
    }
  }

  function answerRequest (request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://localhost')
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    const isOptions = request.method === 'OPTIONS' && url.pathname === '/'
    if (!isRead && !isOptions && request.method !== 'POST') return sendNothing(response, 501)
    if (isRead && (url.pathname === '/ping' || url.pathname === '/replicas_status')) return sendText(response, 200, 'Ok.\n')
    if (url.pathname === '/hold-inserts' && request.method === 'POST') {
      holdInserts(parts, authenticate(request, url), response).catch((error: unknown) => {
        if (!response.headersSent) sendError(response, error)
      })
      return
    }
    if (url.pathname !== '/') return sendText(response, 404, `There is no handle ${url.pathname}\n\nUse / or /ping for health checks.\n`)
    if (isOptions) return sendNothing(response, 204)
    if (isRead && !url.searchParams.has('query')) return sendText(response, 200, 'Ok.\n')
    identify(response)
    const { 'content-length': length, 'transfer-encoding': transfer } = request.headers
    if (!isRead && length === undefined && transfer === undefined) {
      throw new QueryError(381, 'The Transfer-Encoding is not chunked and there is no Content-Length header for POST request')
    }
    if (parts.gate.closing !== undefined) {
      response.setHeader('Connection', 'close')
      throw parts.gate.closing
    }
    const user = authenticate(request, url)
    void handleQuery(parts, user, request, response, url)
  }

  /** What every answer to a query says, an error too. */
  function identify (response: ServerResponse): void {
    response.setHeader('X-ClickHouse-Server-Display-Name', parts.gate.displayName)
    response.setHeader('Access-Control-Expose-Headers', EXPOSED_HEADERS)
  }

  function sendError (response: ServerResponse, error: unknown): void {
    const { code, status, text } = toErrorAnswer(error, parts.storage.engine.version)
    if (code === 1002) parts.gate.logger.error({ err: error }, 'request failed unexpectedly')
    response.setHeader('X-ClickHouse-Exception-Code', String(code))
    sendText(response, status, text)
  }
}

function sendNothing (response: ServerResponse, status: number): void {
  response.writeHead(status).end()
}

function sendText (response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=UTF-8' }).end(text)
}

/** Runs the query of one request and answers it. Never throws: every error becomes an answer. */
async function handleQuery (
  parts: ServerParts, user: User, request: IncomingMessage, response: ServerResponse, url: URL
): Promise<void> {
  parts.queries.running.unanswered++
  const startedAt = performance.now()
  const stops = { unwanted: new AbortController(), killed: new AbortController() }
  response.on('close', () => { if (!response.writableFinished) stops.unwanted.abort() })
  const answer = new Answer(request, response)
  const record = startRecord(user, request)
  const { remoteAddress } = request.socket
  const seconds = parts.gate.sendTimeoutSeconds
  onStoppedReading(response, seconds, () => {
    stops.unwanted.abort(new QueryError(209, `Timeout exceeded while writing to socket (${remoteAddress}, ${seconds * 1000} ms)`))
    parts.gate.logger.warn({ user, queryId: record.queryId, remoteAddress, seconds, userAgent: record.httpUserAgent },
      'a client stopped reading its answer: its query was cancelled and its connection reset, so that others need not wait')
  })
  try {
    const type = formType(request)
    if (type !== undefined) await readForm(request, type, url.searchParams, maxStatementBytes(user))
    const params = parseRequest(request, url)
    answer.setHeader('X-ClickHouse-Query-Id', params.queryId)
    answer.setHeader('X-ClickHouse-Timezone', params.settings.get('session_timezone') ?? parts.storage.engine.timezone)
    answer.compressBlocks = params.compressBlocks
    answer.compressionLevel = params.compressionLevel
    const { queryId, database, logComment, logQueries } = params
    Object.assign(record, { queryId, currentDatabase: database, logComment, isWanted: logQueries })
    const state = user !== 'analyst'
      ? { database, settings: params.settings }
      : {
          database: analystDatabase(database, parts.gate.database),
          settings: vetAnalystSettings(params.settings, parts.gate.allowList)
        }
    record.currentDatabase = state.database
    const query = { user, request: params, state, answer, stops, record, isRead: user === 'analyst' }
    const running = parts.queries.running.during(params.queryId, record, stops, async () => {
      const tell = (): void => answer.sendProgress(writeProgress(record, (performance.now() - startedAt) / 1000))
      const progress = params.progressEveryMs === 0 ? undefined : setInterval(tell, params.progressEveryMs)
      try {
        await runQuery(parts, query, request)
        throwIfTimedOut(stops.unwanted.signal)
      } finally {
        clearInterval(progress)
      }
    })
    await untilOverdue(running, query)
  } catch (error) {
    const told = tellError(error, stops.unwanted.signal, parts.storage.engine.version)
    if (told.code === 1002) parts.gate.logger.error({ err: error }, 'query failed unexpectedly')
    if (parts.gate.closing !== undefined && !answer.started) answer.setHeader('Connection', 'close')
    Object.assign(record, { exceptionCode: told.code, exception: told.text.trimEnd() })
    answer.fail(told)
    // The next request of the connection stands behind a body that was refused half-way.
    request.unpipe().removeAllListeners('readable').resume()
  }
  parts.queries.running.unanswered--
  parts.queries.queryLog.add({ ...record, resultBytes: answer.bytes, queryDurationMs: performance.now() - startedAt })
}

/**
 * Resets the connection of a client that takes nothing of what waits for it: it would otherwise keep its session for as
 * long as it likes, and with it a place that others wait for. A thread of the engine that waits for room in its pipe
 * does not see `max_execution_time`.
 *
 * As on a server, what counts is what the kernel takes, which it does when a third of its send buffer is free.
 *
 * @param onTimeout  Called before the connection is reset.
 */
function onStoppedReading (response: ServerResponse, seconds: number, onTimeout: () => void): void {
  response.setTimeout(seconds * 1000, () => {
    // The query may still run, or the body may still come: nothing waits for the client.
    if (response.socket === null || response.socket.writableLength === 0) return
    onTimeout()
    // A regular end would leave megabytes in the send buffer, for a client that may never take them.
    response.socket.resetAndDestroy()
  })
}

/**
 * Waits for a query; for one that only reads, no longer than that after it was ended: the engine may go on with it.
 *
 * @throws as the query does; {QueryError} 394, or why it was ended, when it goes on.
 */
async function untilOverdue (running: Promise<void>, query: Query): Promise<void> {
  running.catch(() => {})
  const ended = query.stops.unwanted.signal
  await new Promise<void>((resolve, reject) => {
    running.then(resolve, reject)
    ended.addEventListener('abort', () => {
      const reason = ended.reason instanceof QueryError ? ended.reason : new QueryError(394, 'Query was cancelled')
      setTimeout(() => { if (query.isRead) reject(reason) }, OVERDUE_MS).unref()
    }, { once: true })
  })
}

/** What is written for a client that has stopped reading goes nowhere, and fails nowhere. */
function throwIfTimedOut ({ reason }: AbortSignal): void {
  if (reason instanceof QueryError && reason.code === 209) throw reason
}

/** A query that was cancelled says why, where that is known. */
function tellError (error: unknown, { reason }: AbortSignal, version: string): ErrorAnswer {
  const told = toErrorAnswer(error, version)
  return told.code === 394 && reason instanceof QueryError ? toErrorAnswer(reason, version) : told
}

async function runQuery (parts: ServerParts, query: Query, request: IncomingMessage): Promise<void> {
  const body = await readBody(request, query.request, maxStatementBytes(query.user))
  if (body.kind === 'statement') {
    query.record.query = body.text
    await runStatement(parts, query, body.text)
    return
  }
  Object.assign(query.record, { query: `${body.head} ${body.settings} FORMAT ${body.format}`, queryKind: 'INSERT' })
  if (query.user === 'analyst') throw new QueryError(164, 'analyst: Cannot execute query in readonly mode')
  if (query.request.readOnlyMethod) throw readOnlyMethodError()
  await runInsert(parts, query, body)
}
