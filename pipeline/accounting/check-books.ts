/** Compares the books with what `events` holds. */
import { LEDGER_TABLE, readLedgerKey } from '../../schema/wire/ledger.ts'
import { type ClickHouse, onEachShard, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { waitForReplicas } from '../../platform/clickhouse/wait-for-replicas.ts'
import { waitUntilSettled } from './partition-positions.ts'
import { type BookTotals, type Books, type LedgerDeps, type LedgerSpan, readBooks } from './read-books.ts'

/** Rows in `events` by `ledgerKey`. */
export type StoredCounts = ReadonlyMap<string, number>

/** A minute of a project in which the rows of `events` differ from the books. */
export interface Drift {
  projectId: number
  /** Minutes since 1970. */
  minute: number
  /** Rows that must be in `events`, and are not. */
  missing: number
  /** Rows in `events` that no message brought. */
  extra: number
}

export interface BooksCheck {
  drift: Drift[]
  /** The books, read after the rows were counted. */
  books: Books
  stored: StoredCounts
  /**
   * Rows more than the books say while inserts are under way that did not end in time: they may be theirs, and are
   * no drift yet.
   */
  unsettled: number
}

export interface CheckBooksOptions {
  /** Counts the rows of the span; all rows of one moment between call and answer. */
  countStored: (span: LedgerSpan) => Promise<StoredCounts>
  /** Longest wait for inserts under way, in milliseconds. */
  settleMs: number
}

/**
 * Checks the books of a span. Pending events are never reported as drift:
 *
 * ```
 *   books A --- replicas catch up --- rows are counted --- books B --- inserts under way at B have ended --- books C
 * ```
 *
 * - Whatever was in the books at A was stored before the count. Fewer rows than A, less what deletions had begun to
 *   remove by B: rows are missing.
 * - Whatever was counted belongs to an insert that had ended by B or was under way then, and so is in the books at C.
 *   More rows than C, less what deletions had removed by A: rows are too many.
 *
 * No clock is compared and no delay is guessed, so a paused process or an outage between any two steps changes nothing.
 *
 * @throws when NATS or ClickHouse does not answer: nothing is known then.
 */
export async function checkBooks (
  deps: LedgerDeps, span: LedgerSpan, { countStored, settleMs }: CheckBooksOptions
): Promise<BooksCheck> {
  const before = await readBooks(deps, span)
  await waitForReplicas(deps)
  const stored = await countStored(span)
  let books = await readBooks(deps, span)
  const openedAt = Math.max(before.openedAt, books.openedAt)
  const missing = findMissing(before, stored, books, openedAt)
  let extra = findExtra(before, stored, books, openedAt)
  let unsettled = 0
  if (extra.size > 0 && !await waitUntilSettled(deps.connection, books.positions, { timeoutMs: settleMs })) {
    unsettled = [...extra.values()].reduce((sum, rows) => sum + rows, 0)
    extra = new Map()
  }
  if (extra.size > 0) {
    await waitForReplicas({ ...deps, tables: [LEDGER_TABLE] })
    books = await readBooks(deps, span)
    extra = findExtra(before, stored, books, Math.max(openedAt, books.openedAt))
  }
  const drift = [...new Set([...missing.keys(), ...extra.keys()])].map((key) =>
    ({ ...readLedgerKey(key), missing: missing.get(key) ?? 0, extra: extra.get(key) ?? 0 }))
  return { drift: drift.sort((a, b) => a.projectId - b.projectId || a.minute - b.minute), books, stored, unsettled }
}

/** How many rows of the events that were dealt with must have been stored, deleted ones included. */
export function storedByBooks (totals: BookTotals | undefined): number {
  if (totals === undefined) return 0
  return totals.accepted + totals.replayed - totals.duplicates - totals.deadLettered
}

function findMissing (before: Books, stored: StoredCounts, after: Books, openedAt: number): Map<string, number> {
  const missing = new Map<string, number>()
  for (const [key, totals] of before.totals) {
    const rows = storedByBooks(totals) - (after.totals.get(key)?.deletionsBegun ?? 0) - (stored.get(key) ?? 0)
    if (rows > 0 && readLedgerKey(key).minute >= openedAt) missing.set(key, rows)
  }
  return missing
}

function findExtra (before: Books, stored: StoredCounts, after: Books, openedAt: number): Map<string, number> {
  const extra = new Map<string, number>()
  for (const [key, count] of stored) {
    const rows = count - (storedByBooks(after.totals.get(key)) - (before.totals.get(key)?.deletionsDone ?? 0))
    if (rows > 0 && readLedgerKey(key).minute >= openedAt) extra.set(key, rows)
  }
  return extra
}

/** Counts the rows of a span by project and minute of receipt, from the columns themselves and without FINAL. */
export async function countStored (
  { clickhouse, cluster }: { clickhouse: ClickHouse, cluster: string }, { from, to, projectId = 0 }: LedgerSpan
): Promise<StoredCounts> {
  const rows = await queryRows<{ key: string, count: string }>(clickhouse, `
    SELECT concat(toString(project_id), ':', toString(intDiv(toUnixTimestamp(received_at), 60))) AS key, count() AS count
    FROM ${onEachShard(cluster, 'events')}
    WHERE received_at >= toDateTime64({from: UInt32}, 3) AND received_at < toDateTime64({to: UInt32}, 3)
      AND ({project: UInt32} = 0 OR project_id = {project: UInt32})
    GROUP BY project_id, intDiv(toUnixTimestamp(received_at), 60) SETTINGS final = 0`,
  { from: from * 60, to: to * 60, project: projectId })
  return new Map(rows.map(({ key, count }) => [key, Number(count)]))
}
