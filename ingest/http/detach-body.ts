import { type IncomingMessage } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'

/** Smaller bodies have arrived, or are on their way into the buffers of the system, when forwarding fails. */
const LARGE_BYTES = 16_384

/**
 * The body of a request as a stream that may be destroyed without harm to the request.
 *
 * A client of HTTP destroys the body it was given when its server goes away. On the request itself that would end
 * the reading for good, and a client that sends everything before it looks for an answer would wait until the
 * request times out.
 *
 * @returns the request itself when its body is small: nobody can get stuck on it.
 */
export function detachBody (raw: IncomingMessage): Readable {
  if (Number(raw.headers['content-length'] ?? Infinity) <= LARGE_BYTES) return raw
  const body = new PassThrough()
  raw.pipe(body)
  raw.once('close', () => { if (!raw.complete) body.destroy(new Error('the client went away')) })
  // Anyone who reads the body is told; nobody else needs to be.
  body.on('error', () => {})
  return body
}
