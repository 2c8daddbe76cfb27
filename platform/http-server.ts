import { type Server, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { HttpError, toHttpErrorBody } from './errors.ts'

/**
 * Bytes of the request line and headers together. Filters of long lists (`event_names`) and events in a query take
 * more than Node's own 16 KB.
 */
export const MAX_HEADER_BYTES = 65_536

/**
 * Answers bytes that are not an HTTP request, or one that is too large or too slow, in the shape of the contract. Such
 * a request has no route: the answer is written to the socket, which is then closed.
 */
export function answerClientError (error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  const known = toHttpError(error.code)
  const body = JSON.stringify(toHttpErrorBody(known))
  if (!socket.writable) {
    socket.destroy()
    return
  }
  socket.end(`HTTP/1.1 ${known.status} ${STATUS_CODES[known.status] ?? ''}\r\nconnection: close\r\n` +
    `content-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  socket.destroySoon()
}

/**
 * Lets a server answer clients that close their side once they have sent their request (`socket.end(request)`), as TCP
 * allows. By itself, Node ends such a connection without the answer, while the request is worked on all the same: its
 * client would send it again. A client that is gone for good costs one answer that nobody reads.
 *
 * Node has no documented option for it; `test/events/half-closed-clients.test.ts` tells when the property means
 * nothing more.
 */
export function answerHalfClosed (server: Server): void {
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true
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
