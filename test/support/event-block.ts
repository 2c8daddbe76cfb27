import { type ColumnType, EVENT_COLUMNS, type EventColumn } from '../../schema/wire/event-row.ts'
import { type NativeBlock, type NativeColumn, uuidToNative } from '../../schema/wire/native-block.ts'

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

/** Builds a block of the current row layout from plain values. */
export function buildEventBlock (events: readonly PlainEvent[]): NativeBlock {
  return {
    rows: events.length,
    columns: (EVENT_COLUMNS as readonly EventColumn[]).map(({ name, type, default: absent }) => ({
      name, type, cells: events.map((event) => encodeCell(type, event[name] ?? absent))
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
    case 'Int32': {
      const bytes = Buffer.alloc(4)
      bytes.writeInt32LE(Number(value ?? 0))
      return bytes
    }
    case 'Bool': return Buffer.from([value === true ? 1 : 0])
    case 'Float64': {
      const bytes = Buffer.alloc(8)
      bytes.writeDoubleLE(Number(value ?? 0))
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
