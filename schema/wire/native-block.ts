/** Blocks of ClickHouse's Native format in memory. */
import { textOfUuid } from '../../engines/uuid.ts'
import type { ColumnType } from './event-row.ts'

/**
 * One Native block in memory, as the rare paths need it: to look into a suspicious message, to remove duplicates, to
 * split a message of which a row is refused. Cells keep their bytes, so that rewriting does not change them.
 */
export interface NativeBlock {
  rows: number
  columns: NativeColumn[]
}

/** The cells of a column in row order: the bytes of a value without its length. */
export type NativeColumn =
  | { name: string, type: Exclude<ColumnType, 'Map(String, String)'>, cells: Uint8Array[] }
  | { name: string, type: 'Map(String, String)', cells: Uint8Array[][] }

/** Bytes of a value of the types with a fixed width. */
export const FIXED_WIDTHS: Partial<Record<ColumnType, number>> = {
  UInt32: 4, Int32: 4, Bool: 1, Float64: 8, UUID: 16, 'DateTime64(3)': 8
}

/** First word of a `LowCardinality` column: keys are shared within the block. */
export const DICTIONARY_VERSION = 1n

/** Flags of a dictionary that travels with its block: has additional keys (1 << 9), needs update (1 << 10). */
export const DICTIONARY_FLAGS = 0x600n

/** Widths of dictionary indexes by the number in the low byte of the flags. */
export const INDEX_WIDTHS = [1, 2, 4, 8] as const

/** Builds a block of the given rows of another one, in the given order. */
export function pickRows (block: NativeBlock, rows: readonly number[]): NativeBlock {
  return {
    rows: rows.length,
    columns: block.columns.map((column) => ({
      ...column, cells: rows.map((row) => column.cells[row]!)
    }) as NativeColumn)
  }
}

/** The cells of a column of single values, by name. @throws when the block has no such column. */
export function cellsOf ({ columns }: NativeBlock, name: string): Uint8Array[] {
  const column = columns.find((each) => each.name === name)
  if (column === undefined || column.type === 'Map(String, String)') throw new Error(`the block has no column ${name}`)
  return column.cells
}

/** A UUID in Native is two little-endian halves of 64 bits. */
export function uuidToNative (text: string): Uint8Array {
  const bytes = Buffer.from(text.replaceAll('-', ''), 'hex')
  bytes.subarray(0, 8).reverse()
  bytes.subarray(8).reverse()
  return bytes
}

/** The usual text of a UUID in Native. */
export function uuidFromNative (native: Uint8Array): string {
  const bytes = Buffer.from(native)
  bytes.subarray(0, 8).reverse()
  bytes.subarray(8).reverse()
  return textOfUuid(bytes)
}

/** The rows of a block in plain values, by column, for people and for JSON. */
export function describeRows (block: NativeBlock): Record<string, unknown>[] {
  return Array.from({ length: block.rows }, (_, row) =>
    Object.fromEntries(block.columns.map((column) => [column.name, describeCell(column, row)])))
}

function describeCell (column: NativeColumn, row: number): unknown {
  if (column.type === 'Map(String, String)') {
    const texts = column.cells[row]!.map((bytes) => Buffer.from(bytes).toString())
    return Object.fromEntries(Array.from({ length: texts.length / 2 }, (_, i) => [texts[2 * i], texts[2 * i + 1]]))
  }
  const bytes = Buffer.from(column.cells[row]!)
  switch (column.type) {
    case 'Bool': return bytes[0] !== 0
    case 'UInt32': return bytes.readUInt32LE()
    case 'Int32': return bytes.readInt32LE()
    case 'Float64': return bytes.readDoubleLE()
    case 'UUID': return uuidFromNative(bytes)
    case 'DateTime64(3)': return describeTime(Number(bytes.readBigInt64LE()))
    default: return bytes.toString()
  }
}

/** A row may be refused for its very time, so none is too strange to be shown. */
function describeTime (ms: number): string {
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`
}
