import { type FrameEncoder } from '../encode/frame-encoder.ts'
import { type EventRow } from '../normalise/event-row.ts'

/** A message is closed at whichever comes first; JetStream is cheapest around a megabyte before compression. */
const MAX_ROWS = 1000
const MAX_BLOCK_BYTES = 786_432

/** A larger row travels alone. With the bound above, every other message fits a server with its default of 1 MiB. */
const LARGE_ROW_BYTES = 131_072

/** Whether a message takes no more rows. */
export function isFull (encoder: FrameEncoder): boolean {
  return encoder.rows >= MAX_ROWS || encoder.bytes >= MAX_BLOCK_BYTES
}

/** Whether the open message should leave before this row is added. */
export function needsNewMessage (row: EventRow): boolean {
  return row.properties.length > LARGE_ROW_BYTES
}
