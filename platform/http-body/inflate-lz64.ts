import { bodyError, bodyTooLarge } from './http-body-error.ts'

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
  // Entries 0 to 2 are the special codes and never looked up.
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
    if (entry === undefined || entry === '') throw invalid()
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
      if (digit < 0) throw invalid()
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
  if (kind > NEXT_IS_16_BITS) throw invalid()
  return String.fromCharCode(readCode(readBit, kind === NEXT_IS_8_BITS ? 8 : 16))
}

function invalid (): Error {
  return bodyError('invalid_lz64', 'The body is not valid lz64.')
}
