import zlib from 'node:zlib'
import { bodyError, bodyTooLarge } from './http-body-error.ts'

/** Content encodings besides gzip, which is recognised by its magic bytes whatever the headers say. */
export type ContentEncoding = 'deflate' | 'br' | 'zstd'

export function isGzip (bytes: Uint8Array): boolean {
  return bytes.length >= 3 && bytes[0] === 0x1f && bytes[1] === 0x8b && bytes[2] === 8
}

/**
 * Inflates gzip bytes, at most `maxBytes` of them: the limit acts while inflating, so a bomb costs no memory.
 *
 * Synchronous on purpose: for the bodies that are decoded on the event loop (tens of kilobytes) the way through the
 * thread pool costs several times the inflating itself.
 *
 * @throws {HttpError} 400 `invalid_gzip`, 413 `body_too_large`.
 */
export function inflateGzip (bytes: Buffer, maxBytes: number): Buffer {
  try {
    return zlib.gunzipSync(bytes, { maxOutputLength: maxBytes, chunkSize: guessInflatedBytes(bytes, maxBytes) })
  } catch (error) {
    throw explain(error, maxBytes, () => bodyError('invalid_gzip', 'The body is not valid gzip.', error))
  }
}

/** Undoes a content encoding other than gzip, under the same limit. */
export function inflateEncoded (bytes: Buffer, encoding: ContentEncoding, maxBytes: number): Buffer {
  const options = { maxOutputLength: maxBytes }
  try {
    if (encoding === 'br') return zlib.brotliDecompressSync(bytes, options)
    if (encoding === 'zstd') return zlib.zstdDecompressSync(bytes, options)
    // "deflate" is zlib format by the standard, but some clients send the raw form.
    const isZlib = ((bytes[0] ?? 0) & 0x0f) === 8
    return isZlib ? zlib.inflateSync(bytes, options) : zlib.inflateRawSync(bytes, options)
  } catch (error) {
    throw explain(error, maxBytes, () => bodyError('invalid_encoding', `The body is not valid ${encoding}.`, error))
  }
}

const SMALLEST_CHUNK = 4096

/** Deflate cannot inflate more than this. */
const MAX_RATIO = 1032

/**
 * Output buffer to start with: gzip ends with the inflated size (modulo 2^32), and one buffer of the right size saves
 * zlib a third of its time over many small ones, and the memory to join them. A lie costs address space only.
 */
function guessInflatedBytes (bytes: Buffer, maxBytes: number): number {
  const claimed = bytes.length < 18 ? 0 : bytes.readUInt32LE(bytes.length - 4)
  const possible = Math.min(claimed, maxBytes, bytes.length * MAX_RATIO)
  return Math.max(possible + 1, SMALLEST_CHUNK)
}

function explain (error: unknown, maxBytes: number, otherwise: () => Error): Error {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'ERR_BUFFER_TOO_LARGE' ? bodyTooLarge('The decompressed body', maxBytes) : otherwise()
}
