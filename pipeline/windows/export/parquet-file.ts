/** Parquet files on their way: written by ClickHouse, hashed as they pass. */
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ClickHouseError, type ClickHouseSettings, parseError } from '@clickhouse/client'
import { parquetMetadataAsync } from 'hyparquet'
import { classifyClickHouseError } from '../../../platform/clickhouse/clickhouse-errors.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'

export interface FileFacts {
  rows: number
  bytes: number
  sha256: string
}

/**
 * Row groups bound the memory of ClickHouse and of readers. Their rows are copied together before they are encoded: of
 * 100,000 the copy had left the processor's cache by then, a tenth of the CPU; of 8,192 files are 8 % larger. Old
 * readers know no other text than strings.
 */
const PARQUET_SETTINGS: ClickHouseSettings = {
  output_format_parquet_compression_method: 'zstd',
  output_format_compression_level: '1',
  // Readers that look for single values are rare, and each value of each column would be hashed for them.
  output_format_parquet_write_bloom_filter: 0,
  // Ids fill a dictionary in vain before they are written without one: with 65,536 bytes a tenth more CPU.
  output_format_parquet_max_dictionary_size: '16384',
  // No page has a range of its own that a reader could skip, and manifests have the SHA-256 of each file.
  output_format_parquet_write_page_index: 0,
  output_format_parquet_write_checksums: 0,
  output_format_parquet_string_as_string: 1,
  output_format_parquet_row_group_size: '32768',
  output_format_parquet_row_group_size_bytes: '33554432',
  output_format_parquet_parallel_encoding: 0,
  max_threads: 1,
  // Joining them to a row group costs less than rows that are no longer in the processor's cache when they are encoded.
  max_block_size: '8192',
  preferred_block_size_bytes: '33554432',
  max_memory_usage: '300000000',
  // As it comes: the server need not hold the result.
  wait_end_of_query: 0
}

/**
 * For events of up to a megabyte. They take 100 MB, and 250 where a merge has put them behind small ones; the rest is
 * room, because a window that fails again and again is never written. Without the 0 a block has at least the rows of an
 * index granule, which may be 80 of them.
 */
const FEW_ROWS: ClickHouseSettings = {
  max_block_size: '10', preferred_block_size_bytes: '0', output_format_parquet_row_group_size_bytes: '8388608',
  max_memory_usage: '600000000'
}

/**
 * Has ClickHouse answer a query with Parquet, and writes that to a file. Resolves when it is on disk.
 *
 * Blocks are as large as rows were before, so where large events follow small ones the first of theirs may need more
 * memory than it may have. Then it is tried once with few rows a block.
 */
export async function queryToFile (
  clickhouse: ClickHouse, query: string, file: string, signal: AbortSignal
): Promise<FileFacts> {
  const write = async (settings: ClickHouseSettings): Promise<FileFacts> => {
    const { stream } = await clickhouse.exec({
      query: `${query} FORMAT Parquet`, clickhouse_settings: { ...PARQUET_SETTINGS, ...settings }, abort_signal: signal
    })
    return await saveFile(stream, file, signal)
  }
  return await write({}).catch(async (error: unknown) => {
    if (classifyClickHouseError(error).name !== 'MEMORY_LIMIT_EXCEEDED') throw error
    return await write(FEW_ROWS)
  })
}

/**
 * Bytes that are written to the disk at a time, from one buffer: writing each chunk as it came took twice the CPU, and
 * each new buffer counts towards the next collection of all garbage.
 */
const WRITE_BYTES = 1_048_576

/**
 * Writes a Parquet file as it comes.
 *
 * @throws when it is not whole: what ClickHouse says of it, if it does.
 * @throws when it is longer than `maxBytes`: a target may be anybody's server, and send without end.
 */
export async function saveFile (
  content: Readable, file: string, signal: AbortSignal, maxBytes = Infinity
): Promise<FileFacts> {
  const hash = createHash('sha256')
  let byteLength = 0
  const block = Buffer.allocUnsafe(WRITE_BYTES)
  let filled = 0
  // An answer that nobody reads keeps its connection, and ends the process when it breaks off.
  await using handle = await open(file, 'w+').catch((error: unknown) => { content.destroy(); throw error })
  try {
    await pipeline(content, async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        hash.update(chunk)
        byteLength += chunk.length
        if (byteLength > maxBytes) throw new Error(`the file has more than ${maxBytes} bytes`)
        for (let at = 0; at < chunk.length;) {
          const copied = chunk.copy(block, filled, at)
          at += copied
          filled += copied
          if (filled < block.length) continue
          await handle.writeFile(block)
          filled = 0
        }
      }
      await handle.writeFile(block.subarray(0, filled))
    }, { signal })
    await handle.sync()
    const footer = await parquetMetadataAsync({
      byteLength,
      async slice (start: number, end = byteLength) {
        const { buffer } = await handle.read({ buffer: new Uint8Array(end - start), position: start })
        return buffer.buffer
      }
    })
    return { rows: Number(footer.num_rows), bytes: byteLength, sha256: hash.digest('hex') }
  } catch (error) {
    // The last bytes may describe an error of ClickHouse, which had answered 200; some may not have been read.
    const { size } = await handle.stat()
    const written = Buffer.alloc(16_384)
    const { bytesRead } = await handle.read({ buffer: written, position: Math.max(0, size - written.length) })
    const last: Buffer[] = [written.subarray(0, bytesRead), block.subarray(0, filled)]
    for (let rest: Buffer | null; (rest = content.read()) !== null;) last.push(rest)
    const described = parseError(Buffer.concat(last).toString())
    throw described instanceof ClickHouseError ? described : error
  }
}
