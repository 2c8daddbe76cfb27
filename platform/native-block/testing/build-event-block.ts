import { EVENT_COLUMNS, type ColumnType } from '../../../schema/event-row.ts'
import { type NativeBlock, type NativeColumn } from '../native-block.ts'

/** One event by column, in plain values. What is absent is empty. */
export interface PlainEvent {
  project_id: number
  uuid: string
  event: string
  distinct_id: string
  /** Epoch milliseconds. */
  timestamp: number
  received_at?: number
  groups?: Record<string, string>
  properties?: string
  property_types?: string
  [column: string]: unknown
}

/** Builds a block of the current row layout from plain values: for tests, and for the empty block of the probe. */
export function buildEventBlock (events: readonly PlainEvent[]): NativeBlock {
  return {
    rows: events.length,
    columns: EVENT_COLUMNS.map(({ name, type }) => ({
      name, type, cells: events.map((event) => encodeCell(type, event[name]))
    }) as NativeColumn)
  }
}

function encodeCell (type: ColumnType, value: unknown): Uint8Array | Uint8Array[] {
  switch (type) {
    case 'UInt32': {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32LE(Number(value ?? 0))
      return bytes
    }
    case 'DateTime64(3)': {
      const bytes = Buffer.alloc(8)
      bytes.writeBigInt64LE(BigInt(Number(value ?? 0)))
      return bytes
    }
    case 'UUID': return uuidToNative(String(value))
    case 'Map(String, String)': return Object.entries(value ?? {}).flat().map((text) => Buffer.from(String(text)))
    default: return Buffer.from(String(value ?? ''))
  }
}

/** A UUID in Native is two little-endian halves of 64 bits. */
export function uuidToNative (text: string): Uint8Array {
  const bytes = Buffer.from(text.replaceAll('-', ''), 'hex')
  bytes.subarray(0, 8).reverse()
  bytes.subarray(8).reverse()
  return bytes
}

export function uuidFromNative (native: Uint8Array): string {
  const bytes = Buffer.from(native)
  bytes.subarray(0, 8).reverse()
  bytes.subarray(8).reverse()
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
