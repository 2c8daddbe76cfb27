import { uuidFromNative, type NativeBlock, type NativeColumn } from './native-block.ts'

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
    case 'UInt32': return bytes.readUInt32LE()
    case 'UUID': return uuidFromNative(bytes)
    case 'DateTime64(3)': return describeTime(Number(bytes.readBigInt64LE()))
    default: return bytes.toString()
  }
}

/** A row may be refused for its very time, so none is too strange to be shown. */
function describeTime (ms: number): string {
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`
}
