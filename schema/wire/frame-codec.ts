/** Frames to blocks and back: zstd around ClickHouse's `FORMAT Native`. For rare paths and tests. */
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import type { ColumnType } from './event-row.ts'
import { MillraceError } from '../../engines/errors.ts'
import { DICTIONARY_FLAGS, DICTIONARY_VERSION, FIXED_WIDTHS, INDEX_WIDTHS, type NativeBlock, type NativeColumn } from './native-block.ts'

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** A frame that inflates to more is not ours, in bytes: ingest publishes near 1 MB, one huge event at most 32 MB. */
export const MAX_BLOCK_BYTES = 268_435_456

/**
 * Inflates and decodes a frame. For rare paths: the main path never looks into one.
 *
 * @param options.columns  Decode only the first columns.
 * @throws when the bytes are not a zstd frame of one Native block.
 */
export async function decodeFrame (frame: Uint8Array, options: { columns?: number } = {}): Promise<NativeBlock> {
  return decodeNativeBlock(await decompress(frame, { maxOutputLength: MAX_BLOCK_BYTES }), options)
}

export async function encodeFrame (block: NativeBlock): Promise<Uint8Array> {
  const bytes = encodeNativeBlock(block)
  // The frame then says how large its content is, which tells the writer whether to join it with others.
  return await compress(bytes, { pledgedSrcSize: bytes.length, params: { [constants.ZSTD_c_compressionLevel]: 1 } })
}

/**
 * Encodes a block as ClickHouse reads it (`FORMAT Native`). For rare paths and tests: clear rather than fast; the
 * encoder of the main path is ingest's.
 */
export function encodeNativeBlock (block: NativeBlock): Buffer {
  const parts: Uint8Array[] = [varint(block.columns.length), varint(block.rows)]
  for (const column of block.columns) {
    parts.push(...string(Buffer.from(column.name)), ...string(Buffer.from(column.type)))
    if (block.rows > 0) parts.push(...encodeCells(column))
  }
  return Buffer.concat(parts)
}

function encodeCells (column: NativeColumn): Uint8Array[] {
  switch (column.type) {
    case 'String': return column.cells.flatMap(string)
    case 'LowCardinality(String)': return encodeDictionary(column.cells)
    case 'Map(String, String)': return encodeMap(column.cells)
    default: return column.cells
  }
}

function encodeDictionary (cells: readonly Uint8Array[]): Uint8Array[] {
  // The first key of a dictionary is the default of the type, by convention of the format.
  const indexes = new Map<string, number>([['', 0]])
  const keys: Uint8Array[] = [new Uint8Array(0)]
  const rows = cells.map((cell) => {
    const text = Buffer.from(cell.buffer, cell.byteOffset, cell.byteLength).toString('latin1')
    let index = indexes.get(text)
    if (index === undefined) {
      index = keys.push(cell) - 1
      indexes.set(text, index)
    }
    return index
  })
  const widthCode = keys.length <= 0x100 ? 0 : keys.length <= 0x10000 ? 1 : 2
  const width = INDEX_WIDTHS[widthCode]
  const encoded = Buffer.alloc(rows.length * width)
  rows.forEach((index, row) => encoded.writeUIntLE(index, row * width, width))
  return [
    uint64(DICTIONARY_VERSION), uint64(DICTIONARY_FLAGS | BigInt(widthCode)),
    uint64(BigInt(keys.length)), ...keys.flatMap(string), uint64(BigInt(rows.length)), encoded
  ]
}

function encodeMap (cells: readonly Uint8Array[][]): Uint8Array[] {
  let end = 0
  const ends = cells.map((row) => uint64(BigInt(end += row.length / 2)))
  const flat = cells.flat()
  return [
    ...ends,
    ...flat.filter((_, index) => index % 2 === 0).flatMap(string),
    ...flat.filter((_, index) => index % 2 === 1).flatMap(string)
  ]
}

function string (bytes: Uint8Array): [Uint8Array, Uint8Array] {
  return [varint(bytes.length), bytes]
}

function varint (value: number): Uint8Array {
  const bytes: number[] = []
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128)
  bytes.push(value)
  return Uint8Array.from(bytes)
}

function uint64 (value: bigint): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}

/**
 * Decodes the types that a frame may use (`ColumnType`); cells are views of `bytes`.
 *
 * @param options.columns  Stop after this many columns. The identity of an event is in the first five.
 * @throws {MillraceError} `MILLRACE_BLOCK_INVALID` with action `dead-letter` when the bytes are not such a block.
 */
export function decodeNativeBlock (bytes: Uint8Array, options: { columns?: number } = {}): NativeBlock {
  const reader: Reader = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), at: 0 }
  const columnCount = readVarint(reader)
  const rows = readVarint(reader)
  if (columnCount > 1000 || rows > bytes.length) throw invalid(`${columnCount} columns of ${rows} rows`)
  const columns: NativeColumn[] = []
  for (let i = 0; i < Math.min(columnCount, options.columns ?? columnCount); i++) {
    columns.push(readColumn(reader, rows))
  }
  if (columns.length === columnCount && reader.at !== bytes.length) throw invalid('bytes after the last column')
  return { rows, columns }
}

interface Reader {
  bytes: Uint8Array
  view: DataView
  at: number
}

function readColumn (reader: Reader, rows: number): NativeColumn {
  const name = Buffer.from(readString(reader)).toString()
  const type = Buffer.from(readString(reader)).toString() as ColumnType
  const width = FIXED_WIDTHS[type]
  if (width !== undefined) return { name, type, cells: readMany(rows, () => take(reader, width)) } as NativeColumn
  switch (type) {
    case 'String': return { name, type, cells: readMany(rows, () => readString(reader)) }
    case 'LowCardinality(String)': return { name, type, cells: readDictionary(reader, rows) }
    case 'Map(String, String)': return { name, type, cells: readMap(reader, rows) }
    default: throw invalid(`column ${name} of type ${type}`)
  }
}

/** Version, flags, keys, then an index a row into the keys. Nothing of it is there in a block without rows. */
function readDictionary (reader: Reader, rows: number): Uint8Array[] {
  if (rows === 0) return []
  readUInt64(reader)
  const width = INDEX_WIDTHS[readUInt64(reader) & 0xff]
  if (width === undefined) throw invalid('dictionary index of unknown width')
  const keys = readMany(readUInt64(reader), () => readString(reader))
  if (readUInt64(reader) !== rows) throw invalid('dictionary row count mismatch')
  return readMany(rows, () => {
    const key = keys[readIndex(reader, advance(reader, width), width)]
    if (key === undefined) throw invalid('dictionary index beyond the keys')
    return key
  })
}

function readIndex ({ view }: Reader, at: number, width: 1 | 2 | 4 | 8): number {
  switch (width) {
    case 1: return view.getUint8(at)
    case 2: return view.getUint16(at, true)
    case 4: return view.getUint32(at, true)
    case 8: return Number(view.getBigUint64(at, true))
  }
}

/** The end of each row in the flat lists, then all keys, then all values. A row becomes key, value, key, value. */
function readMap (reader: Reader, rows: number): Uint8Array[][] {
  const ends = readMany(rows, () => readUInt64(reader))
  const total = ends.at(-1) ?? 0
  const keys = readMany(total, () => readString(reader))
  const values = readMany(total, () => readString(reader))
  let from = 0
  return ends.map((end) => {
    if (end < from || end > total) throw invalid('map rows overlap')
    const row: Uint8Array[] = []
    for (; from < end; from++) row.push(keys[from]!, values[from]!)
    return row
  })
}

function readMany<T> (count: number, read: () => T): T[] {
  const values: T[] = []
  for (let i = 0; i < count; i++) values.push(read())
  return values
}

function readString (reader: Reader): Uint8Array {
  return take(reader, readVarint(reader))
}

function readVarint (reader: Reader): number {
  let value = 0
  for (let shift = 1; shift <= 2 ** 42; shift *= 128) {
    const byte = reader.bytes[advance(reader, 1)]!
    value += (byte & 127) * shift
    if (byte < 128) return value
  }
  throw invalid('number too long')
}

function readUInt64 (reader: Reader): number {
  return Number(reader.view.getBigUint64(advance(reader, 8), true))
}

function take (reader: Reader, length: number): Uint8Array {
  const at = advance(reader, length)
  return reader.bytes.subarray(at, at + length)
}

function advance (reader: Reader, length: number): number {
  const at = reader.at
  if (at + length > reader.bytes.length) throw invalid('the block ends too early')
  reader.at = at + length
  return at
}

function invalid (what: string): MillraceError {
  return new MillraceError('MILLRACE_BLOCK_INVALID', `not a block of events: ${what}`, { action: 'dead-letter' })
}
