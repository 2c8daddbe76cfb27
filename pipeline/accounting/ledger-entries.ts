/** The arithmetic of the books that a partition keeps in its record. */
import { type LedgerEntry, type PartitionLedger, readLedgerKey } from '../../schema/wire/ledger.ts'
import { partitionKey, type Partition } from '../stream/find-partitions.ts'

/** What a batch range adds to the books, by `ledgerKey`. */
export type LedgerCounts = ReadonlyMap<string, Omit<LedgerEntry, 'source'>>

/** Where a partition stands: the fields of its record that the books belong to. */
export interface LedgerPosition {
  stream: string
  done: number
  doneRows: number
  ledger: PartitionLedger
}

const MINUTE_MS = 60_000

/**
 * Minutes until books that begin now are complete: an event received later cannot have been counted by anyone else, if
 * clocks differ by less than a minute.
 */
const OPENING_MINUTES = 2

/** New books. They are complete from the minute after next on. */
export function openLedger (now: number): PartitionLedger {
  return { openedAt: Math.floor(now / MINUTE_MS) + OPENING_MINUTES, entries: {} }
}

/**
 * The books after the stream began to number anew. If an insert was under way, nobody can tell whether its events are
 * stored: books that begin later do not contain them.
 */
export function carryLedger (
  { range, ledger }: { range: unknown, ledger: PartitionLedger }, now: number
): PartitionLedger {
  return range === null ? ledger : { ...ledger, openedAt: Math.max(ledger.openedAt, openLedger(now).openedAt) }
}

/**
 * The books after a batch range.
 *
 * @param before  The record before it: new entries begin after its position, which makes their source unique.
 */
export function addToLedger (partition: Partition, before: LedgerPosition, counts: LedgerCounts): PartitionLedger {
  const entries = { ...before.ledger.entries }
  for (const [key, more] of counts) {
    const entry = entries[key]
    entries[key] = {
      source: entry?.source ?? `${partitionKey(partition)}:${before.stream}:${before.done}.${before.doneRows}`,
      accepted: (entry?.accepted ?? 0) + more.accepted,
      replayed: (entry?.replayed ?? 0) + more.replayed,
      duplicates: (entry?.duplicates ?? 0) + more.duplicates,
      deadLettered: (entry?.deadLettered ?? 0) + more.deadLettered
    }
  }
  return { ...before.ledger, entries }
}

/** Minutes before an entry is closed: most events of a minute arrive together. */
const KEPT_MINUTES = 3

/**
 * Closes minutes of the ledger: deletes the entries of minutes that are over and whose totals the table has.
 *
 * @param options.isWritten  Whether the table has the entry with these totals.
 * @param options.isCrowded  Closes recent minutes as well.
 */
export function closeEntries (ledger: PartitionLedger, { now, isWritten, isCrowded }: {
  now: number, isWritten: (key: string, entry: LedgerEntry) => boolean, isCrowded: boolean
}): PartitionLedger {
  const before = isCrowded ? Infinity : Math.floor(now / MINUTE_MS) - KEPT_MINUTES
  const all = Object.entries(ledger.entries)
  const kept = all.filter(([key, entry]) => readLedgerKey(key).minute >= before || !isWritten(key, entry))
  return kept.length === all.length ? ledger : { ...ledger, entries: Object.fromEntries(kept) }
}
