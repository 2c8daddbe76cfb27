import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createAuthenticate } from './request/authenticate.ts'
import { QueryError, toErrorAnswer } from './errors.ts'
import { type ServerParts } from './server-parts.ts'
import { handleQuery } from './handle-query.ts'
import { holdInserts } from './insert/hold-inserts.ts'

/** Statements, settings and parameters travel in the URL; servers allow a mebibyte as well. */
const MAX_HEADER_BYTES = 1_048_576

/**
 * ClickHouse's HTTP interface: `/ping` and `/replicas_status` for health, `/` for queries. Beside it `/hold-inserts`,
 * for backups.
 */
export function buildServer (parts: ServerParts): Server {
  const authenticate = createAuthenticate(parts.logins)
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => {
    // A client that goes away in the middle is noticed by the steps that read and write.
    request.on('error', () => {})
    response.on('error', () => {})
    response.setHeader('X-ClickHouse-Server-Display-Name', parts.displayName)
    try {
      answerRequest(request, response)
    } catch (error) {
      sendError(response, error)
    }
  })
  // Inserts of slow clients may take long; a connection that sends nothing at all is dropped by the next limit.
  server.requestTimeout = 3_600_000
  server.headersTimeout = 30_000
  // Longer than clients keep idle sockets, so that the client is the one to close: no race with a new request.
  server.keepAliveTimeout = 65_000
  return server

  function answerRequest (request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://parts')
    if (url.pathname === '/ping' || url.pathname === '/replicas_status') return sendText(response, 200, 'Ok.\n')
    if (url.pathname === '/hold-inserts' && request.method === 'POST') {
      holdInserts(parts, authenticate(request, url), response).catch((error: unknown) => {
        if (!response.headersSent) sendError(response, error)
      })
      return
    }
    if (url.pathname !== '/') return sendText(response, 404, `There is no handle ${url.pathname}\n\nUse / or /ping for health checks.\n`)
    if (!['GET', 'HEAD', 'POST', 'OPTIONS'].includes(request.method ?? '')) return sendText(response, 405, `Method ${request.method} is not supported\n`)
    if (request.method === 'OPTIONS') return sendText(response, 204, '')
    if (isHealthCheck(request, url)) return sendText(response, 200, 'Ok.\n')
    if (isLengthUnknown(request)) {
      throw new QueryError(381, 'The Transfer-Encoding is not chunked and there is no Content-Length header for POST request')
    }
    if (parts.closing) throw new QueryError(236, 'The server is shutting down')
    const user = authenticate(request, url)
    void handleQuery(parts, user, { request, response, url })
  }

  function sendError (response: ServerResponse, error: unknown): void {
    const { code, status, text } = toErrorAnswer(error, parts.engine.version)
    if (code === 1002) parts.logger.error({ err: error }, 'request failed unexpectedly')
    response.setHeader('X-ClickHouse-Exception-Code', String(code))
    sendText(response, status, text)
  }
}

function isHealthCheck (request: IncomingMessage, url: URL): boolean {
  return request.method !== 'POST' && !url.searchParams.has('query')
}

function isLengthUnknown (request: IncomingMessage): boolean {
  return request.method === 'POST' && request.headers['content-length'] === undefined && request.headers['transfer-encoding'] === undefined
}

function sendText (response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=UTF-8' })
  response.end(text)
}
