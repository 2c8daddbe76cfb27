/** What became of the events of a batch range, by project and minute of receipt. */
import { decodeFrame } from '../../platform/clickhouse/frame-codec.ts'
import { type AcceptedCount, type LedgerEntry, ledgerKey, minuteOfReceipt, readAccepted } from '../../schema/wire/ledger.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import type { BatchRange } from '../stream/partition-records.ts'
import type { PartitionMessage } from '../events/events-reader.ts'
import type { LedgerCounts } from './ledger-entries.ts'

/** The columns of every layout up to `received_at`. */
const COLUMNS_TO_RECEIVED_AT = 6

/**
 * Counts a batch range that is stored, or dead-lettered. A message tells in a header what it holds; the frame is only
 * looked into where that does not say which of its events are meant: a piece of a message or duplicates in it, when its
 * events are of several projects or minutes.
 */
export async function countBatch (
  messages: readonly PartitionMessage[], range: Pick<BatchRange, 'rows' | 'deduplicated'>,
  { isDeadLettered }: { isDeadLettered: boolean }
): Promise<LedgerCounts> {
  const counts = new Map<string, Omit<LedgerEntry, 'source'>>()
  const deduplicated = new Map(range.deduplicated)
  for (const message of messages) {
    const [from, to] = range.rows ?? [0, message.rows]
    const duplicates = clipRanges(deduplicated.get(message.sequence) ?? [], from, to)
    const isReplayed = message.headers[HEADER.replayed] !== undefined
    for (const { key, events, duplicates: repeated } of await splitRows(message, { from, to, duplicates })) {
      const count = counts.get(key) ?? { accepted: 0, replayed: 0, duplicates: 0, deadLettered: 0 }
      counts.set(key, count)
      if (isReplayed) count.replayed += events
      else count.accepted += events
      count.duplicates += repeated
      if (isDeadLettered) count.deadLettered += events - repeated
    }
  }
  return counts
}

interface KeyCount {
  key: string
  events: number
  /** Of them. */
  duplicates: number
}

interface Rows {
  from: number
  /** Exclusive. */
  to: number
  /** Pairs `from, to` (exclusive). */
  duplicates: readonly number[]
}

async function splitRows (message: PartitionMessage, rows: Rows): Promise<KeyCount[]> {
  const { from, to } = rows
  // Its headers do not say how many events it holds, so nobody accepted any.
  if (to <= from) return []
  const header = readHeader(message)
  const repeated = sumOfRanges(rows.duplicates)
  if (header?.length === 1) return [{ key: keyOf(header[0]!), events: to - from, duplicates: repeated }]
  const isWhole = to - from === message.rows
  if (header !== null && isWhole && repeated === 0) {
    return header.map((count) => ({ key: keyOf(count), events: count.events, duplicates: 0 }))
  }
  const keys = await readKeys(message)
  if (keys !== null) return countKeys(keys, rows)
  // Nothing can be told of its rows, so it is dead-lettered whole: no row of it is a duplicate that is left out.
  if (header === null || !isWhole) return []
  return header.map((count) => ({ key: keyOf(count), events: count.events, duplicates: 0 }))
}

/** Null when there is none that agrees with the message. */
function readHeader ({ headers, rows }: PartitionMessage): AcceptedCount[] | null {
  const counts = readAccepted(headers[HEADER.accepted])
  return counts !== null && counts.reduce((sum, { events }) => sum + events, 0) === rows ? counts : null
}

function keyOf ({ projectId, minute }: AcceptedCount): string {
  return ledgerKey(projectId, minute)
}

/** The key of each row; null when the frame cannot be read. */
async function readKeys (message: PartitionMessage): Promise<string[] | null> {
  try {
    const { rows, columns } = await decodeFrame(message.frame, { columns: COLUMNS_TO_RECEIVED_AT })
    const project = columns[0]!.cells as Uint8Array[]
    const received = columns[COLUMNS_TO_RECEIVED_AT - 1]!
    if (rows !== message.rows || received.name !== 'received_at') return null
    return Array.from({ length: rows }, (_, row) => ledgerKey(
      Buffer.from(project[row]!).readUInt32LE(),
      minuteOfReceipt(Number(Buffer.from(received.cells[row] as Uint8Array).readBigInt64LE()))
    ))
  } catch {
    // ClickHouse refuses it as well.
    return null
  }
}

function countKeys (keys: readonly string[], { from, to, duplicates }: Rows): KeyCount[] {
  const counts = new Map<string, KeyCount>()
  let next = 0
  for (let row = from; row < to; row++) {
    const key = keys[row]!
    const count = counts.get(key) ?? { key, events: 0, duplicates: 0 }
    counts.set(key, count)
    count.events++
    while (next < duplicates.length && row >= duplicates[next + 1]!) next += 2
    if (next < duplicates.length && row >= duplicates[next]!) count.duplicates++
  }
  return [...counts.values()]
}

function clipRanges (ranges: readonly number[], from: number, to: number): number[] {
  const clipped: number[] = []
  for (let i = 0; i < ranges.length; i += 2) {
    const [begin, end] = [Math.max(ranges[i]!, from), Math.min(ranges[i + 1]!, to)]
    if (begin < end) clipped.push(begin, end)
  }
  return clipped
}

function sumOfRanges (ranges: readonly number[]): number {
  let sum = 0
  for (let i = 0; i < ranges.length; i += 2) sum += ranges[i + 1]! - ranges[i]!
  return sum
}
