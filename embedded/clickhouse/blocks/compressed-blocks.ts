/**
 * ClickHouse's own compression of a body (`compress=1`, `decompress=1`), as JDBC and clickhouse-go use it: blocks of
 * checksum (16 bytes, CityHash128 of the rest), method (1), size with these 9 bytes (4), size of contents (4), data.
 */
import zlib from 'node:zlib'
import { QueryError } from '../query-errors.ts'
import { cityHash128 } from './city-hash.ts'
import { compressLz4, decompressLz4 } from './lz4.ts'

const LZ4 = 0x82
const ZSTD = 0x90
const NONE = 0x02

const CHECKSUM_BYTES = 16
const HEAD_BYTES = 9
/** As servers fill theirs. */
const BLOCK_BYTES = 1_048_576
/** A block is held in memory; clients make them of at most a few mebibytes. */
const MAX_BLOCK_BYTES = 67_108_864

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

/**
 * Decompresses a body, block by block.
 *
 * @throws {QueryError} 40 for a wrong checksum, 271 for a block that is broken, too large or not complete, 432 for a
 *   method other than LZ4, ZSTD and none.
 */
export async function * decompressBlocks (body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let waiting: Buffer[] = []
  let bytes = 0
  let wanted = CHECKSUM_BYTES + HEAD_BYTES
  for await (const chunk of body) {
    waiting.push(chunk)
    bytes += chunk.length
    while (bytes >= wanted) {
      const whole = Buffer.concat(waiting)
      const size = blockSize(whole)
      wanted = size
      waiting = [whole]
      if (bytes < size) break
      yield decompressBlock(whole.subarray(0, size))
      waiting = [whole.subarray(size)]
      bytes -= size
      wanted = CHECKSUM_BYTES + HEAD_BYTES
    }
  }
  if (bytes > 0) throw new QueryError(271, 'Cannot decompress: the last block is not complete')
}

/** With checksum and head; both are there. */
function blockSize (block: Buffer): number {
  const [size, contents] = [block.readUInt32LE(CHECKSUM_BYTES + 1), block.readUInt32LE(CHECKSUM_BYTES + 5)]
  if (size < HEAD_BYTES || size > MAX_BLOCK_BYTES || contents > MAX_BLOCK_BYTES) {
    throw new QueryError(271, `Cannot decompress: a block of ${size} bytes with ${contents} bytes of contents; is the body compressed by ClickHouse's blocks?`)
  }
  return CHECKSUM_BYTES + size
}

function decompressBlock (block: Buffer): Buffer {
  const summed = block.subarray(CHECKSUM_BYTES)
  if (!cityHash128(summed).equals(block.subarray(0, CHECKSUM_BYTES))) {
    throw new QueryError(40, 'Checksum does not match: corrupted data of a compressed block')
  }
  const [method, size, data] = [summed[0]!, summed.readUInt32LE(5), summed.subarray(HEAD_BYTES)]
  try {
    if (method === LZ4) return decompressLz4(data, size)
    if (method === ZSTD) return zlib.zstdDecompressSync(data, { maxOutputLength: Math.max(size, 1) })
  } catch (error) {
    throw new QueryError(271, `Cannot decompress: ${String(error instanceof Error ? error.message : error)}`)
  }
  if (method === NONE && data.length === size) return data
  throw new QueryError(432, `Unknown codec family code: ${method}`)
}
