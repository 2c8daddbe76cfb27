/**
 * ClickHouse's own blocks of an answer (`compress=1`), as JDBC reads them:
 * checksum (16 bytes, CityHash128 of the rest), method (1), size with these 9 bytes (4), size of contents (4), data.
 *
 * The data is LZ4, which every client reads, of literals alone: the clients are on this machine as a rule, and others
 * have the compression of HTTP.
 */
import { cityHash128 } from './city-hash.ts'

const LZ4 = 0x82
/** The length of literals that a token has room for; what is more follows it, 255 a byte. */
const MOST_IN_TOKEN = 15

const CHECKSUM_BYTES = 16
const HEAD_BYTES = 9
/** As servers fill theirs. */
const BLOCK_BYTES = 1_048_576

/** Cuts an answer into blocks, before the compression of HTTP. */
export class BlockWriter {
  #waiting: Uint8Array[] = []
  #bytes = 0

  write (chunk: Uint8Array): Uint8Array[] {
    this.#waiting.push(chunk)
    this.#bytes += chunk.length
    return this.#bytes < BLOCK_BYTES ? [] : this.#flush()
  }

  /** What is left when the answer has ended. */
  end (): Uint8Array[] {
    return this.#bytes === 0 ? [] : this.#flush()
  }

  #flush (): Uint8Array[] {
    const bytes = Buffer.concat(this.#waiting.splice(0))
    this.#bytes = 0
    const starts = Array.from({ length: Math.ceil(bytes.length / BLOCK_BYTES) }, (_, i) => i * BLOCK_BYTES)
    return starts.map((start) => writeBlock(bytes.subarray(start, start + BLOCK_BYTES)))
  }
}

export function writeBlock (contents: Uint8Array): Buffer {
  const head = literalsHead(contents.length)
  const block = Buffer.concat([Buffer.alloc(CHECKSUM_BYTES + HEAD_BYTES), head, contents])
  block[CHECKSUM_BYTES] = LZ4
  block.writeUInt32LE(block.length - CHECKSUM_BYTES, CHECKSUM_BYTES + 1)
  block.writeUInt32LE(contents.length, CHECKSUM_BYTES + 5)
  cityHash128(block.subarray(CHECKSUM_BYTES)).copy(block)
  return block
}

/** What stands before that many literals (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md). */
function literalsHead (length: number): Buffer {
  if (length < MOST_IN_TOKEN) return Buffer.from([length << 4])
  const more = length - MOST_IN_TOKEN
  const full = Buffer.alloc(Math.floor(more / 255), 255)
  return Buffer.from([MOST_IN_TOKEN << 4, ...full, more % 255])
}
