/**
 * ClickHouse's own compression of an answer (`compress=1`), as JDBC uses it: blocks of
 * checksum (16 bytes, CityHash128 of the rest), method (1), size with these 9 bytes (4), size of contents (4), data.
 */
import { cityHash128 } from './city-hash.ts'
import { compressLz4 } from './lz4.ts'

const LZ4 = 0x82

const CHECKSUM_BYTES = 16
const HEAD_BYTES = 9
/** As servers fill theirs. */
const BLOCK_BYTES = 1_048_576

/** Rewrites a body on its way to the client, before the compression of HTTP. */
export interface BodyTransform {
  write: (chunk: Uint8Array) => Uint8Array[]
  /** What is left when the body has ended. */
  end: () => Uint8Array[]
}

/** Compresses an answer by LZ4, which every client reads. */
export class BlockCompressor implements BodyTransform {
  #waiting: Uint8Array[] = []
  #bytes = 0

  write (chunk: Uint8Array): Uint8Array[] {
    this.#waiting.push(chunk)
    this.#bytes += chunk.length
    return this.#bytes < BLOCK_BYTES ? [] : this.#flush()
  }

  end (): Uint8Array[] {
    return this.#bytes === 0 ? [] : this.#flush()
  }

  #flush (): Uint8Array[] {
    const bytes = Buffer.concat(this.#waiting)
    this.#waiting = []
    this.#bytes = 0
    const blocks: Uint8Array[] = []
    for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
      blocks.push(compressBlock(bytes.subarray(at, at + BLOCK_BYTES)))
    }
    return blocks
  }
}

export function compressBlock (contents: Uint8Array): Buffer {
  const data = compressLz4(contents)
  const block = Buffer.allocUnsafe(CHECKSUM_BYTES + HEAD_BYTES + data.length)
  block[CHECKSUM_BYTES] = LZ4
  block.writeUInt32LE(HEAD_BYTES + data.length, CHECKSUM_BYTES + 1)
  block.writeUInt32LE(contents.length, CHECKSUM_BYTES + 5)
  data.copy(block, CHECKSUM_BYTES + HEAD_BYTES)
  cityHash128(block.subarray(CHECKSUM_BYTES)).copy(block)
  return block
}
