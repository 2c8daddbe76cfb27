import { type PartitionMessage } from '../read/partition-message.ts'

/** Bounds of one insert. */
export interface BatchLimits {
  /** Rows at most: keeps the insert one block (ClickHouse recognises a repeated insert block by block). */
  maxRows: number
  /** Compressed bytes at most: bounds the memory of both sides. */
  maxBytes: number
  /** Pause between two batch ranges while little comes, in milliseconds: few parts for ClickHouse, and fresh enough. */
  maxAgeMs: number
}

/** How much of the partition may share an insert while a refused row is being searched for; otherwise unlimited. */
export interface SearchLimits {
  messages: number
  rows: number
}

/** How many of the first messages make the next batch; `full` when waiting longer would not make it larger. */
export interface ChosenBatch {
  count: number
  full: boolean
}

/**
 * Chooses the longest run of messages from the start of the buffer that may share an insert: one row layout, within
 * the limits. A message beyond all limits makes a batch of its own, as does one whose headers make no sense.
 */
export function chooseBatch (
  buffer: readonly PartitionMessage[], limits: BatchLimits, search: SearchLimits
): ChosenBatch {
  const first = buffer[0]
  if (first === undefined) return { count: 0, full: false }
  let rows = 0
  let bytes = 0
  let count = 0
  for (const message of buffer) {
    rows += message.rows
    bytes += message.frame.length
    const fits = message.layout === first.layout && first.layout !== -1 &&
      rows <= limits.maxRows && bytes <= limits.maxBytes && count < search.messages
    if (count > 0 && !fits) return { count, full: true }
    count++
  }
  return { count, full: rows >= limits.maxRows || bytes >= limits.maxBytes || count >= search.messages }
}
