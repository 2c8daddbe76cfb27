import zlib from 'node:zlib'
import { bodyError, bodyTooLarge } from './read-body.ts'

/** Content encodings besides gzip, which is recognised by its magic bytes whatever the headers say. */
export type ContentEncoding = 'deflate' | 'br' | 'zstd'

export function isGzip (bytes: Uint8Array): boolean {
  return bytes.length >= 3 && bytes[0] === 0x1f && bytes[1] === 0x8b && bytes[2] === 8
}

/**
 * Inflates gzip bytes, at most `maxBytes` of them: the limit acts while inflating, so a bomb costs no memory.
 *
 * Synchronous on purpose: for the bodies that are decoded on the event loop (tens of kilobytes) a detour through the
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

/**
 * Whether Node's Brotli decoder ends at an invalid block switch: since 22.23.4, 24.22.1 and 26.12.1, which know that
 * error. One before them writes past its buffer (CVE-2026-111497), so it must not get the bytes of strangers.
 */
export const HAS_SAFE_BROTLI = 'BROTLI_DECODER_ERROR_FORMAT_BLOCK_SWITCH' in zlib.constants

/** Undoes a content encoding other than gzip, under the same limit. */
export function inflateEncoded (bytes: Buffer, encoding: ContentEncoding, maxBytes: number): Buffer {
  if (encoding === 'br' && !HAS_SAFE_BROTLI) {
    throw bodyError('invalid_encoding', `Brotli is disabled on Node ${process.version}, whose decoder is unsafe.`)
  }
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
export const MAX_RATIO = 1032

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

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const DIGITS = new Int8Array(128).fill(-1)
for (let digit = 0; digit < 64; digit++) DIGITS[ALPHABET.charCodeAt(digit)] = digit

/** The three codes that are not dictionary entries. */
const NEXT_IS_8_BITS = 0
const NEXT_IS_16_BITS = 1
const END = 2

/**
 * Decompresses LZ-String base64 ("lz64"), the compression of old browser SDKs.
 *
 * The format is LZ78 over UTF-16 units with codes that grow by a bit whenever the dictionary is full, lowest bit
 * first, six bits a character. Written here because a few kilobytes of it can stand for gigabytes, and the
 * published decoder has no limit.
 *
 * @throws {HttpError} 400 `invalid_lz64`, 413 `body_too_large` when the text is longer than `maxBytes` units.
 */
export function inflateLz64 (text: string, maxBytes: number): string {
  const read = createBitReader(text)
  const first = readCode(read, 2)
  if (first === END) return ''
  let previous = readCharacter(read, first)
  // Entries 0 to 2 are the special codes and never used as entries.
  const dictionary: string[] = ['', '', '', previous]
  const parts = [previous]
  let length = previous.length
  let codeBits = 3
  let untilWider = 4

  while (true) {
    let code = readCode(read, codeBits)
    if (code === END) return parts.join('')
    if (code === NEXT_IS_8_BITS || code === NEXT_IS_16_BITS) {
      dictionary.push(readCharacter(read, code))
      code = dictionary.length - 1
      if (--untilWider === 0) untilWider = 2 ** codeBits++
    }
    // A code one past the end names the entry that this very step adds.
    const entry = code === dictionary.length ? previous + previous.charAt(0) : dictionary[code]
    if (entry === undefined || entry === '') throw invalidLz64()
    length += entry.length
    if (length > maxBytes) throw bodyTooLarge('The decompressed body', maxBytes)
    parts.push(entry)
    dictionary.push(previous + entry.charAt(0))
    previous = entry
    if (--untilWider === 0) untilWider = 2 ** codeBits++
  }
}

type BitReader = () => number

function createBitReader (text: string): BitReader {
  let position = 0
  let digit = 0
  let bitsLeft = 0
  return function readBit () {
    if (bitsLeft === 0) {
      digit = DIGITS[text.charCodeAt(position++)] ?? -1
      if (digit < 0) throw invalidLz64()
      bitsLeft = 6
    }
    bitsLeft--
    return (digit >> bitsLeft) & 1
  }
}

function readCode (readBit: BitReader, bits: number): number {
  let code = 0
  for (let bit = 0; bit < bits; bit++) code += readBit() * 2 ** bit
  return code
}

function readCharacter (readBit: BitReader, kind: number): string {
  if (kind > NEXT_IS_16_BITS) throw invalidLz64()
  return String.fromCharCode(readCode(readBit, kind === NEXT_IS_8_BITS ? 8 : 16))
}

function invalidLz64 (): Error {
  return bodyError('invalid_lz64', 'The body is not valid lz64.')
}
