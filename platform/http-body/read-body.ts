import { type IncomingMessage } from 'node:http'
import { HttpError } from '../errors.ts'
import { bodyTooLarge } from './http-body-error.ts'

/**
 * Collects the bytes of a request body.
 *
 * A body over the limit is refused as soon as that is known, but the connection stays usable: Node discards the rest
 * of the body once the answer is written, and the next request on the connection is read.
 *
 * @param maxBytes  Largest body on the wire.
 * @throws {HttpError} 413 `body_too_large`; 400 `incomplete_body` when the client went away half-way.
 */
export function readBody (request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > maxBytes) return Promise.reject(bodyTooLarge('The request body', maxBytes))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0

    request.on('data', onData)
    request.on('end', onEnd)
    request.on('error', onGone)
    request.on('close', onGone)

    function onData (chunk: Buffer): void {
      length += chunk.length
      if (length > maxBytes) {
        stop()
        request.resume()
        reject(bodyTooLarge('The request body', maxBytes))
        return
      }
      chunks.push(chunk)
    }
    function onEnd (): void {
      stop()
      resolve(chunks.length === 1 ? chunks[0] as Buffer : Buffer.concat(chunks, length))
    }
    function onGone (): void {
      stop()
      reject(new HttpError(400, 'validation_error', 'incomplete_body', 'The request ended before its body was complete.'))
    }
    function stop (): void {
      request.off('data', onData)
      request.off('end', onEnd)
      request.off('error', onGone)
      request.off('close', onGone)
    }
  })
}
