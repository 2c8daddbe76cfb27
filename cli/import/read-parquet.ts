/** Reads the rows of Parquet files, a part of a row group at a time. */
import { isUtf8 } from 'node:buffer'
import { open } from 'node:fs/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import zlib from 'node:zlib'
import { cachedAsyncBuffer, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { fieldsOf, isFields } from '../../engines/fields.ts'
import type { Rows, SourceFile } from './list-files.ts'

/** In the place of a text of Parquet, of which a library would make another one. */
class Unreadable extends Error {}

function unreadable (message: string, bytes: Uint8Array): Unreadable {
  return Object.assign(new Unreadable(message), { toJSON: () => Buffer.from(bytes).toString('latin1') })
}

function readParquetText (bytes: Uint8Array | undefined): unknown {
  if (bytes === undefined) return undefined
  if (!isUtf8(bytes)) return unreadable('the row is not UTF-8', bytes)
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()
}

const TEXT_PARSERS = {
  stringFromBytes: readParquetText,
  jsonFromBytes (bytes: Uint8Array | undefined) {
    const text = readParquetText(bytes)
    if (bytes === undefined || typeof text !== 'string') return text
    try {
      return parseStoredJson(text)
    } catch {
      return unreadable('the row has a text that is not JSON', bytes)
    }
  }
}

/** JSON has no bigint, as which every whole number of 64 bits is read. */
function toJsonNumbers (value: unknown): unknown {
  if (typeof value === 'bigint') return parseStoredJson(String(value))
  if (Array.isArray(value)) return value.map(toJsonNumbers)
  if (!isFields(value) || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, toJsonNumbers(inner)]))
}

/** Of those in JavaScript each page leaves more garbage than its bytes. */
const CODECS = {
  ...compressors,
  ZSTD: (page: Uint8Array) => zlib.zstdDecompressSync(page),
  GZIP: (page: Uint8Array) => zlib.gunzipSync(page)
}

/** Uncompressed bytes and rows of a row group that are read at a time: pages before them are passed over. */
const PART_BYTES = 6_000_000
const PART_ROWS = 25_000

setFlagsFromString('--expose-gc')
/** Of a part that was read, V8 keeps as much in memory as of the next one: 35 MB more of 300. */
const collectGarbage = runInNewContext('gc') as () => void

/** A row group is in memory as it is in the file: compressed, without a way to find a page in it. */
const MAX_GROUP_BYTES = 1_000_000_000

/** Positions count from 1. @throws {Error} for a file that is no Parquet, and for row groups that are too large. */
export async function * readParquet (source: SourceFile): AsyncGenerator<Rows> {
  const { path: name, bytes: byteLength } = source
  await using handle = await open(name)
  // That of the library reads in pieces and joins them, which takes twice the memory.
  const file = {
    byteLength,
    async slice (start: number, end = byteLength) {
      const { buffer } = await handle.read({ buffer: new Uint8Array(end - start), position: start })
      return buffer.buffer
    }
  }
  const metadata = await parquetMetadataAsync(file)
  const options = { metadata, compressors: CODECS, parsers: TEXT_PARSERS }
  let rowStart = 0
  source.bytesRead = () => byteLength * rowStart / Number(metadata.num_rows)
  for (const { num_rows: count, columns } of metadata.row_groups) {
    // Each part asks for the same bytes.
    const group = cachedAsyncBuffer(file)
    const groupEnd = rowStart + Number(count)
    const sizeOf = (field: 'total_compressed_size' | 'total_uncompressed_size'): number =>
      columns.reduce((sum, { meta_data: column }) => sum + Number(column?.[field] ?? 0), 0)
    const compressed = sizeOf('total_compressed_size')
    if (compressed > MAX_GROUP_BYTES) throw new Error(`a row group has ${compressed} bytes, and at most ${MAX_GROUP_BYTES} are read at once; write the file with smaller row groups`)
    const partRows = Math.max(1, Math.min(PART_ROWS, Math.ceil(Number(count) * PART_BYTES / sizeOf('total_uncompressed_size'))))
    for (let rowEnd = rowStart; rowStart < groupEnd; rowStart = rowEnd) {
      collectGarbage()
      rowEnd = Math.min(rowStart + partRows, groupEnd)
      const before = rowStart
      yield (await parquetReadObjects({ ...options, file: group, rowStart, rowEnd })).values().map((read, index) => {
        const row = fieldsOf(toJsonNumbers(read))
        const position = before + index + 1
        const found = Object.values(row).find((value) => value instanceof Unreadable)
        return found === undefined ? { position, row } : { position, error: found.message, text: JSON.stringify(row) }
      })
    }
  }
}
