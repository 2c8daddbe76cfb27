/** What a client does with an answer in ClickHouse's own blocks (`compress=1`). */
import { cityHash128 } from '../http/city-hash.ts'

/**
 * Decompresses a whole answer.
 *
 * @throws when a checksum is wrong, a block is cut off, or its contents are not of LZ4.
 */
export function readBlocks (bytes: Buffer): Buffer {
  const contents: Buffer[] = []
  for (let at = 0, end = 0; at < bytes.length; at = end) {
    end = at + 16 + bytes.readUInt32LE(at + 17)
    const summed = bytes.subarray(at + 16, end)
    if (!cityHash128(summed).equals(bytes.subarray(at, at + 16))) throw new Error(`the checksum of the block at ${at} is wrong`)
    if (summed[0] !== 0x82) throw new Error(`the block at ${at} is not of LZ4`)
    contents.push(decompressLz4(summed.subarray(9), summed.readUInt32LE(5)))
  }
  return Buffer.concat(contents)
}

/** @throws {RangeError} when the block is not of LZ4, or not of this size. */
export function decompressLz4 (source: Uint8Array, size: number): Buffer {
  const target = Buffer.alloc(size)
  let [at, out] = [0, 0]
  const next = (): number => {
    if (at >= source.length) throw new RangeError('the LZ4 block is broken')
    return source[at++]!
  }
  const readLength = (start: number): number => {
    let length = start
    for (let byte = start < 15 ? 0 : 255; byte === 255; length += byte) byte = next()
    return length
  }
  for (;;) {
    const token = next()
    for (let left = readLength(token >> 4); left > 0; left--) target[out++] = next()
    if (at === source.length) break
    const distance = next() | (next() << 8)
    const length = readLength(token & 15) + 4
    if (distance === 0 || distance > out || out + length > size) throw new RangeError('the LZ4 block is broken')
    // A match may overlap what it writes: then it repeats itself.
    for (let i = 0; i < length; i++, out++) target[out] = target[out - distance]!
  }
  if (out !== size) throw new RangeError('the LZ4 block is broken')
  return target
}
