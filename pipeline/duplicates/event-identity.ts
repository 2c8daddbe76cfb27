import { decodeFrame } from '../../platform/native-block/frame-codec.ts'
import { type PartitionMessage } from '../writer/read/partition-message.ts'

/** What makes two rows the same event: an SDK that sends an event again sends all of this again. */
export interface EventIdentity {
  projectId: number
  /** The 16 bytes as in the Native column, in hex. */
  uuidHex: string
  event: Uint8Array
  distinctId: Uint8Array
  /** Day of the timestamp, days since 1970. The corrected clock may move a repeated event: one day off is equal. */
  day: number
}

/** Key under which equal events meet, whatever their day. */
export function identityKey ({ projectId, uuidHex, event, distinctId }: EventIdentity): string {
  return `${projectId} ${uuidHex} ${toHex(event)} ${toHex(distinctId)}`
}

/** Time of an uuid of version 7 in epoch milliseconds; Infinity for any other version, which tells no time. */
export function uuidTime ({ uuidHex }: EventIdentity): number {
  // Native keeps each half of the uuid with its bytes reversed: time is in bytes 7..2, the version in byte 1.
  if (uuidHex[2] !== '7') return Infinity
  return Number.parseInt(uuidHex.slice(14, 16) + uuidHex.slice(12, 14) + uuidHex.slice(10, 12) +
    uuidHex.slice(8, 10) + uuidHex.slice(6, 8) + uuidHex.slice(4, 6), 16)
}

/**
 * Reads the identities of all rows of a message.
 *
 * @returns null when the frame cannot be read; ClickHouse will refuse it too, and it is dead-lettered then.
 */
export async function readIdentities (message: PartitionMessage): Promise<EventIdentity[] | null> {
  try {
    const { rows, columns } = await decodeFrame(message.frame, { columns: IDENTITY_COLUMNS.length })
    if (rows !== message.rows || columns.some(({ name }, index) => name !== IDENTITY_COLUMNS[index])) return null
    const [project, uuid, event, distinctId, timestamp] = columns.map(({ cells }) => cells as Uint8Array[])
    return Array.from({ length: rows }, (_, row) => ({
      projectId: Buffer.from(project![row]!).readUInt32LE(),
      uuidHex: toHex(uuid![row]!),
      event: event![row]!,
      distinctId: distinctId![row]!,
      day: Math.floor(Number(Buffer.from(timestamp![row]!).readBigInt64LE()) / 86_400_000)
    }))
  } catch {
    return null
  }
}

/** The first columns of every layout, in this order. */
const IDENTITY_COLUMNS = ['project_id', 'uuid', 'event', 'distinct_id', 'timestamp']

export function toHex (bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
