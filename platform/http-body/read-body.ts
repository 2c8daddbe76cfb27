import { type IncomingMessage } from 'node:http'
import { HttpError } from '../errors.ts'
import { bodyTooLarge } from './http-body-error.ts'

export interface ReadBodyOptions {
  /** Largest body on the wire. */
  maxBytes: number
  /** Bodies are read at once up to here; larger ones ask for admission first. Default: no admission. */
  smallBytes?: number
  /**
   * Called once, when a body turns out to be larger than `smallBytes`, with the bytes it may take in memory. Nothing
   * more is read until the promise resolves; a rejection ends the reading.
   */
  admit?: (bytes: number) => Promise<void>
}

/**
 * Collects the bytes of a request body, as the pieces they came in: joining many megabytes would hold the event loop.
 *
 * A body over the limit is refused as soon as that is known, but the connection stays usable: Node discards the rest
 * of the body once the answer is written, and the next request on the connection is read.
 *
 * @throws {HttpError} 413 `body_too_large`; 400 `incomplete_body` when the client went away half-way; what `admit`
 *   rejected with.
 */
export function readBody (request: IncomingMessage, options: ReadBodyOptions): Promise<Buffer[]> {
  const { maxBytes, smallBytes = Infinity, admit } = options
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > maxBytes) return Promise.reject(bodyTooLarge('The request body', maxBytes))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    let isAdmitted = false

    request.on('data', onData)
    request.on('end', () => resolve(chunks))
    // A client that goes away half-way shows as an error; after the end there is none, and a second settling is void.
    request.on('error', onGone)

    function onData (chunk: Buffer): void {
      length += chunk.length
      if (length > maxBytes) return refuse(bodyTooLarge('The request body', maxBytes))
      chunks.push(chunk)
      if (length > smallBytes && !isAdmitted && admit !== undefined) {
        isAdmitted = true
        request.pause()
        admit(announced || maxBytes).then(() => request.resume(), refuse)
      }
    }
    function onGone (): void {
      reject(new HttpError(400, 'validation_error', 'incomplete_body', 'The request ended before its body was complete.'))
    }
    function refuse (error: Error): void {
      request.off('data', onData)
      request.resume()
      reject(error)
    }
  })
}
