import { type Msg } from '@nats-io/transport-node'
import { frameOf, FINGERPRINT_BYTES } from '../../../schema/frame-message.ts'
import { HEADER } from '../../../schema/streams.ts'
import { type MessagePlace } from '../../stream-reader/message-place.ts'

/** A message of EVENTS as the writer sees it: nothing of its payload is decoded. */
export interface PartitionMessage {
  sequence: number
  /** When the stream stored it, epoch milliseconds. */
  storedAt: number
  /** Rows of the frame; 0 when the headers make no sense, then the payload is not a frame to us. */
  rows: number
  /** Row layout; -1 when the headers make no sense. */
  layout: number
  /** When ingest received the first event of the message, epoch milliseconds. Old for a message that was spooled. */
  receivedAt: number
  /** Oldest time that an uuid of the message tells, epoch milliseconds; Infinity when none tells any. */
  oldestUuidAt: number
  /** Rows that were found to be duplicates, as pairs `from, to` (exclusive); undefined until that is decided. */
  leftOut?: readonly number[]
  payload: Uint8Array
  /** The zstd frame: a view of the payload. */
  frame: Uint8Array
  headers: Record<string, string>
  /** Subject that acknowledges it. */
  ackSubject: string
}

/**
 * Reads what the writer needs from a message of the events stream. Never throws: a message without sensible headers
 * gets layout -1 and is dead-lettered in its turn.
 */
export function readPartitionMessage (
  message: Msg, { sequence, storedUs, ackSubject }: MessagePlace
): PartitionMessage {
  const storedAt = Math.floor(storedUs / 1000)
  const headers: Record<string, string> = {}
  for (const [name, values] of message.headers ?? []) headers[name] = values[0] ?? ''
  const payload = message.data
  const rows = readInteger(headers[HEADER.rows])
  const layout = readInteger(headers[HEADER.layout])
  const sane = rows > 0 && layout >= 0 && payload.length > rows * FINGERPRINT_BYTES
  return {
    sequence,
    storedAt,
    rows: sane ? rows : 0,
    layout: sane ? layout : -1,
    receivedAt: readInteger(headers[HEADER.received], storedAt),
    oldestUuidAt: readInteger(headers[HEADER.oldestUuid], Infinity),
    payload,
    frame: sane ? frameOf(payload, rows) : payload,
    headers,
    ackSubject
  }
}

function readInteger (text: string | undefined, otherwise = -1): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : otherwise
}
