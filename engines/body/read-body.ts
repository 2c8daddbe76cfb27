import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { HttpError } from '../errors.ts'

export interface ReadBodyOptions {
  /** Largest body on the wire. */
  maxBytes: number
  /** Bodies are read at once up to here; larger ones ask for admission first. Default: no admission. */
  smallBytes?: number
  /**
   * Called once, when a body turns out to be larger than `smallBytes`, with the bytes it may take in memory. Nothing
   * more is read until the promise resolves; a rejection ends the reading. `gone` aborts when the client disconnects.
   */
  admit?: (bytes: number, gone: AbortSignal) => Promise<void>
}

/**
 * The body of a request that is here already, as the pieces it came in; null when some of it is still to come.
 *
 * A small body mostly comes with its head, so it is here in the phase of the event loop after the one that emitted the
 * request (`setImmediate`). Taking it costs less than listening to its pieces.
 *
 * @throws {HttpError} 413 `body_too_large`.
 */
export function readArrivedBody (request: IncomingMessage, maxBytes: number): Buffer[] | null {
  if (!request.complete) return null
  if (request.readableLength > maxBytes) throw bodyTooLarge('The request body', maxBytes)
  const chunks: Buffer[] = []
  while (request.readableLength > 0) chunks.push(request.read() as Buffer)
  return chunks
}

/**
 * Collects the bytes of a request body, as the pieces they came in: joining many megabytes would block the event loop.
 *
 * A body over the limit is refused as soon as that is known, but the connection stays usable: Node discards the rest
 * of the body once the answer is written, and the next request on the connection is read.
 *
 * @throws {HttpError} 413 `body_too_large`; 400 `incomplete_body` when the client disconnected before the end; what
 *   `admit` rejected with.
 */
export function readBody (request: IncomingMessage, options: ReadBodyOptions): Promise<Buffer[]> {
  const { maxBytes, smallBytes = Infinity, admit } = options
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > maxBytes) return Promise.reject(bodyTooLarge('The request body', maxBytes))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    let gone: AbortController | undefined

    // It says so only once.
    if (request.destroyed) return onGone()
    request.on('data', onData)
    request.on('end', () => resolve(chunks))
    // A client that disconnects before the end shows as an error; after the end, a second rejection has no effect.
    request.on('error', onGone)

    function onData (chunk: Buffer): void {
      length += chunk.length
      if (length > maxBytes) return refuse(bodyTooLarge('The request body', maxBytes))
      chunks.push(chunk)
      if (length > smallBytes && gone === undefined && admit !== undefined) {
        gone = new AbortController()
        request.pause()
        admit(announced || maxBytes, gone.signal).then(() => request.resume(), refuse)
      }
    }
    function onGone (): void {
      gone?.abort()
      reject(new HttpError(400, 'validation_error', 'incomplete_body', 'The request ended before its body was complete.'))
    }
    function refuse (error: Error): void {
      request.off('data', onData)
      request.resume()
      reject(error)
    }
  })
}

/** What can be wrong with the bytes of a body; the `code` of the answer. */
export type BodyErrorCode =
  | 'empty_body'
  | 'invalid_body'
  | 'invalid_json'
  | 'invalid_gzip'
  | 'invalid_encoding'
  | 'invalid_base64'
  | 'invalid_lz64'
  | 'invalid_form'
  | 'invalid_multipart'

/** A body that cannot be decoded: answered with 400, nothing of it is used. */
export function bodyError (code: BodyErrorCode, detail: string, cause?: unknown): HttpError {
  return new HttpError(400, 'validation_error', code, detail, cause === undefined ? {} : { cause })
}

/** A body that is too large on the wire, or that inflates to more than is allowed: answered with 413. */
export function bodyTooLarge (what: string, maxBytes: number): HttpError {
  return new HttpError(413, 'validation_error', 'body_too_large', `${what} is larger than ${maxBytes} bytes.`)
}

/** A body that has more values than its limit (`value-limits.ts`): answered with 413. */
export function tooManyValues (max: number, what = 'values in its lists and objects'): HttpError {
  return new HttpError(413, 'validation_error', 'body_too_large', `The body has more than ${max} ${what}.`)
}

const MEDIA_CHARACTER = "[\\w!#$%&'*+.^`|~-]"
const MEDIA_TOKEN = `${MEDIA_CHARACTER}+`

/** What the framework takes for a media type (RFC 9110, 8.3.1). */
const MEDIA_TYPE = new RegExp(`^\\s*${MEDIA_TOKEN}/${MEDIA_TOKEN}\\s*(?:;|$)`)
/** Tried where a token begins: from each character of a long one without a slash, it takes the square of its length. */
const FIRST_MEDIA_TYPE = new RegExp(`(?<!${MEDIA_CHARACTER})${MEDIA_TOKEN}/${MEDIA_TOKEN}`)

/**
 * Makes a header `content-type` that is no media type one. Clients and proxies send `json`, an empty one, or the same
 * one twice (`application/json, application/json`), and the framework answers 415 before a parser is asked; here the
 * bytes of a body decide what it is, and the header is a hint.
 *
 * @param headers  Of the request; changed in place, to match the decoded body when it is forwarded.
 */
export function normaliseContentType (headers: IncomingHttpHeaders): void {
  const type = headers['content-type']
  // What nearly every client sends.
  if (type === undefined || type === 'application/json' || MEDIA_TYPE.test(type)) return
  const text = type.trim().toLowerCase()
  if (text === '') delete headers['content-type']
  else headers['content-type'] = FIRST_MEDIA_TYPE.exec(text)?.[0] ?? (text.includes('json') ? 'application/json' : 'application/octet-stream')
}
