import { DICTIONARY_FLAGS, DICTIONARY_VERSION, INDEX_WIDTHS, type NativeBlock, type NativeColumn } from './native-block.ts'

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
