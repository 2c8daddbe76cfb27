/** What became of the events of a batch range, by project and minute of receipt. */
import { decodeFrame } from '../../schema/wire/frame-codec.ts'
import { cellsOf } from '../../schema/wire/native-block.ts'
import { type AcceptedCount, type LedgerEntry, ledgerKey, minuteOfReceipt, readAccepted } from '../../schema/wire/ledger.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import type { BatchRange } from '../stream/partition-records.ts'
import { countRows, gapsWithin, rangesWithin, type RowRange } from '../events/row-ranges.ts'
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
    const duplicates = rangesWithin(deduplicated.get(message.sequence) ?? [], from, to)
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
  /** Within them. */
  duplicates: readonly RowRange[]
}

async function splitRows (message: PartitionMessage, rows: Rows): Promise<KeyCount[]> {
  const { from, to } = rows
  // Its headers do not say how many events it holds, so nobody accepted any.
  if (to <= from) return []
  const header = readHeader(message)
  const repeated = countRows(rows.duplicates)
  const [only, another] = header ?? []
  if (only !== undefined && another === undefined) {
    return [{ key: keyOf(only), events: to - from, duplicates: repeated }]
  }
  const isWhole = to - from === message.rows
  if (header !== null && isWhole && repeated === 0) {
    return header.map((count) => ({ key: keyOf(count), events: count.events, duplicates: 0 }))
  }
  const keys = await readKeys(message)
  if (keys !== null) return countKeys(keys, rows)
  // Its rows are unreadable, so it is dead-lettered whole: none of them is left out as a duplicate.
  if (header === null || !isWhole) return []
  return header.map((count) => ({ key: keyOf(count), events: count.events, duplicates: 0 }))
}

/** Null without a header that agrees with the message. */
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
    const block = await decodeFrame(message.frame, { columns: COLUMNS_TO_RECEIVED_AT })
    if (block.rows !== message.rows) return null
    const projects = cellsOf(block, 'project_id').map((cell) => Buffer.from(cell).readUInt32LE())
    const minutes = cellsOf(block, 'received_at').map((cell) => minuteOfReceipt(Number(Buffer.from(cell).readBigInt64LE())))
    // A block has as many cells in each column.
    return projects.map((project, row) => ledgerKey(project, minutes[row] ?? 0))
  } catch {
    // ClickHouse refuses it as well.
    return null
  }
}

function countKeys (keys: readonly string[], { from, to, duplicates }: Rows): KeyCount[] {
  const counts = new Map<string, KeyCount>()
  const add = (key: string, isDuplicate: boolean): void => {
    const count = counts.get(key) ?? { key, events: 0, duplicates: 0 }
    counts.set(key, count)
    count.events++
    if (isDuplicate) count.duplicates++
  }
  for (const [first, end] of gapsWithin(duplicates.flat(), from, to)) {
    for (const key of keys.slice(first, end)) add(key, false)
  }
  for (const [first, end] of duplicates) for (const key of keys.slice(first, end)) add(key, true)
  return [...counts.values()]
}
