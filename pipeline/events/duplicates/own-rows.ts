/** Tells the rows of an insert of unknown outcome from duplicates, once they are found stored. */
import type { BatchRange } from '../../stream/partition-records.ts'
import type { PartitionMessage } from '../events-reader.ts'
import { type EventIdentity, type LookUpEvents, readIdentities } from './look-up-events.ts'
import { hasRow } from './row-ranges.ts'

/** A batch range that is not repeated, although its insert may have stored all rows, or some. */
export interface DoubtfulInsert {
  range: BatchRange
  /** Its rows in `events` bear it. */
  token: string
}

interface Row {
  sequence: number
  row: number
  identity: EventIdentity
}

/**
 * The duplicates of a batch range without those that a doubtful insert stored: these are the events themselves. What
 * that insert left out as a duplicate is one.
 */
export async function excludeOwnRows (
  messages: readonly PartitionMessage[], deduplicated: BatchRange['deduplicated'],
  { doubtful, lookUpEvents }: { doubtful: readonly DoubtfulInsert[], lookUpEvents: LookUpEvents }
): Promise<BatchRange['deduplicated']> {
  let rows = await readRows(messages, new Map(deduplicated))
  for (const { range, token } of doubtful) {
    const possible = rows.filter((row) => isInserted(range, row))
    const stored = await lookUpEvents(possible.map(({ identity }) => identity), { insertToken: token })
    const own = new Set(possible.filter((_, index) => stored[index]))
    rows = rows.filter((row) => !own.has(row))
  }
  const left = new Map<number, number[]>()
  for (const { sequence, row } of rows) left.set(sequence, [...left.get(sequence) ?? [], row, row + 1])
  return [...left]
}

/** A message that cannot be read has no rows: it is dead-lettered. */
async function readRows (
  messages: readonly PartitionMessage[], deduplicated: ReadonlyMap<number, readonly number[]>
): Promise<Row[]> {
  const found: Row[] = []
  for (const message of messages) {
    const ranges = deduplicated.get(message.sequence)
    if (ranges === undefined) continue
    const identities = await readIdentities(message) ?? []
    identities.forEach((identity, row) => {
      if (hasRow(ranges, row)) found.push({ sequence: message.sequence, row, identity })
    })
  }
  return found
}

/** Whether the row was part of the insert of the batch range. */
function isInserted ({ first, last, rows: [from, to] = [0, Infinity], deduplicated }: BatchRange, at: Row): boolean {
  if (at.sequence < first || at.sequence > last || at.row < from || at.row >= to) return false
  return !hasRow(new Map(deduplicated).get(at.sequence) ?? [], at.row)
}
