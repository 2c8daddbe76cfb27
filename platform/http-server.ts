import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { HttpError, toHttpErrorBody } from '../engines/errors.ts'

/**
 * Bytes of the request line and headers together. Filters of long lists (`event_names`) and events in a query take
 * more than Node's own 16 KB.
 */
export const MAX_HEADER_BYTES = 65_536

/** A connection that a server reads. Node has no documented way to the response that is being made on it. */
type ServedSocket = Socket & { _httpMessage?: ServerResponse | null }

/** Connections that will get the answer below: more bytes on them are no second error. */
const failed = new WeakSet<Socket>()

/**
 * Answers bytes that are not an HTTP request, or one that is too large or too slow, in the shape of the contract. Such
 * a request has no route: the answer is written to the socket, which is then closed.
 *
 * Requests that arrived whole before those bytes, on the same connection, are answered first: a client takes the first
 * answer for that of its first request, and would believe that stored events were refused.
 */
export function answerClientError (error: Error & { code?: string }, socket: ServedSocket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || failed.has(socket)) return
  failed.add(socket)
  answerInTurn(toHttpError(error.code), socket)
}

function answerInTurn (known: HttpError, socket: ServedSocket): void {
  const current = socket._httpMessage ?? null
  if (current?.req.complete === true) {
    // When it is finished, Node has put the response of the next request in its place.
    current.once('close', () => { if (!socket.destroyed) answerInTurn(known, socket) })
    return
  }
  // Half an answer cannot be followed by another one; and after `connection: close` Node ends the connection.
  if (socket.writable && current?.headersSent !== true) {
    const body = JSON.stringify(toHttpErrorBody(known))
    socket.end(`HTTP/1.1 ${known.status} ${STATUS_CODES[known.status] ?? ''}\r\nconnection: close\r\n` +
      `content-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }
  if (known.status !== 431) return socket.destroySoon()
  // A request that is too large only in its head: its body may follow.
  readAtMost(MAX_REST, socket, socket)
  socket.once('end', () => socket.destroySoon())
}

/**
 * Lets a server answer clients that close their side once they have sent their request (`socket.end(request)`), as TCP
 * allows. By itself, Node ends such a connection without the answer, while the request is worked on all the same: its
 * client would send it again. A client that is gone for good costs one answer that nobody reads.
 *
 * Node has no documented option for it; `test/events/half-closed-clients.system.test.ts` tells when the property means
 * nothing more.
 */
export function answerHalfClosed (server: Server): void {
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true
}

/**
 * Closes, with its idle connections, those on which nothing arrived yet, such as browsers open ahead of a request. Node
 * calls them busy: a server that stops would wait a minute for their first request.
 */
export function closeUnusedConnections (server: Server): void {
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  const closeIdleConnections = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy()
    closeIdleConnections()
  }
}

/**
 * Ends an answer as soon as its client closes its side. For answers that go on until their client leaves:
 * `answerHalfClosed` lets the server think that such a client still listens, so that it would be noticed only when
 * something is written to it, twice.
 */
export function endWithClient (response: ServerResponse): void {
  // That of the request is null when its body was taken away from it.
  const { socket } = response
  const leave = (): void => { response.destroy() }
  socket?.once('end', leave)
  response.once('close', () => { socket?.off('end', leave) })
}

/** What a client may send after its answer; uploads of 100 MB end by then. The time is nginx's `lingering_time`. */
const MAX_REST = { bytes: 134_217_728, ms: 30_000 }

/**
 * Reads the rest of a request whose answer does not wait for it, and forgets it. Many clients send all of a request
 * before they read the answer: a connection that ends meanwhile is a broken pipe to them, and a server that is gone to
 * a proxy. The answer itself is sent at once, for clients that stop when they see it. Beyond the limits the connection
 * is closed.
 *
 * Call it before the answer. Nothing happens when the request has arrived already.
 */
export function discardRest (request: IncomingMessage, max = MAX_REST): void {
  const { socket } = request
  // Undefined for requests without a connection, which the framework makes for tests.
  if (request.complete !== false || socket.destroyed) return
  // Whoever was reading may have paused it.
  readAtMost(max, socket, request.unpipe().resume())
  // Node calls it with the answer, for a connection that is not kept: unread bytes would reset it.
  const { destroySoon } = Socket.prototype
  socket.destroySoon = () => {
    if (request.complete) return destroySoon.call(socket)
    socket.end()
    request.once('end', () => destroySoon.call(socket))
  }
}

/** Has all answers of an app that are sent by the framework read the rest of their request. */
export function discardRests (app: FastifyInstance): void {
  app.addHook('onSend', (request, _reply, payload, done) => {
    discardRest(request.raw)
    done(null, payload)
  })
}

function readAtMost (max: typeof MAX_REST, socket: Socket, rest: Readable): void {
  let bytes = 0
  const timer = setTimeout(() => socket.destroy(), max.ms)
  const done = (): void => {
    clearTimeout(timer)
    socket.off('close', done)
  }
  socket.once('close', done)
  rest.on('data', (chunk: Buffer) => { if ((bytes += chunk.length) > max.bytes) socket.destroy() }).once('end', done)
}

function toHttpError (code: string | undefined): HttpError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new HttpError(431, 'invalid_request', 'headers_too_large', `Path, query and headers exceed ${MAX_HEADER_BYTES} bytes.`)
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new HttpError(408, 'invalid_request', 'request_timeout', 'The request took too long to arrive.')
    default:
      return new HttpError(400, 'invalid_request', 'malformed_request', 'This is not an HTTP request.')
  }
}
