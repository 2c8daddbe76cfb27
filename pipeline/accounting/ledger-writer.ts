/** Copies the books of a partition from its record into ClickHouse. */
import { type ClickHouse, insertRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { pause, retryDelayMs, withTimeout } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import { closeEntries } from './ledger-entries.ts'
import { LEDGER_TABLE, type LedgerEntry, type PartitionLedger, toLedgerRow } from '../../schema/wire/ledger.ts'

/** Stores totals; the same ones again, or older ones after newer ones, change nothing. */
export type InsertLedgerRows = (rows: readonly Record<string, unknown>[]) => Promise<void>

/** @param clickhouse  For the tables of all shards. */
export function createInsertLedgerRows (clickhouse: ClickHouse): InsertLedgerRows {
  return async (values) => await insertRows(clickhouse, LEDGER_TABLE, values)
}

/**
 * Pause between two inserts of a partition, in milliseconds. Checks of the books read unwritten entries
 * from the record, so only the view is behind.
 */
const INTERVAL_MS = 10_000

/** A partition that is handed over waits so long for its last write, in milliseconds. */
const LAST_WRITE_MS = 2000

/** Entries of a record at most, before a batch range adds its own: 60 kB of JSON, which every batch range writes. */
const MAX_ENTRIES = 1000

/** The progress of a partition, as far as its books need it. */
export interface BookedProgress {
  /** The books as they are recorded: entries only in memory could be counted again by the next owner. */
  readonly recordedLedger: PartitionLedger
  /** Records the progress. */
  write: () => Promise<void>
  /** Changes the books with the next write. */
  closeEntries: (close: (ledger: PartitionLedger) => PartitionLedger) => void
}

/** Copies recorded totals to the table `ledger` every ten seconds, and remembers which ones it has. */
export class LedgerWriter {
  readonly #progress: BookedProgress
  readonly #insert: InsertLedgerRows
  readonly #logger: Logger
  /** The totals that the table has, by key. */
  readonly #written = new Map<string, LedgerEntry>()
  #writing: Promise<boolean> | null = null
  #nextAt: number

  constructor (progress: BookedProgress, insert: InsertLedgerRows, logger: Logger) {
    this.#progress = progress
    this.#insert = insert
    this.#logger = logger
    this.#nextAt = performance.now() + INTERVAL_MS
  }

  /** Begins to write what the table does not have, at most one insert every ten seconds. Never rejects. */
  writeSoon (): void {
    if (this.#writing !== null || performance.now() < this.#nextAt) return
    void this.#writeNow()
  }

  /** Writes what the table does not have, if that does not take long: or else the next owner writes it. */
  async writeLast (): Promise<void> {
    await withTimeout(LAST_WRITE_MS, this.#writeNow()).catch(() => {})
  }

  /** Closes minutes that are over and that the table has. @param isCrowded  Recent ones as well. */
  closeEntries (isCrowded = false): void {
    this.#progress.closeEntries((ledger) =>
      closeEntries(ledger, { now: Date.now(), isWritten: this.#isWritten, isCrowded }))
  }

  /** Entries leave the record when there are too many. While ClickHouse is unavailable no rows are inserted. */
  async makeRoom (stop: AbortSignal): Promise<void> {
    if (Object.keys(this.#progress.recordedLedger.entries).length <= MAX_ENTRIES) return
    await this.#progress.write()
    for (let attempt = 0; !stop.aborted && !await this.#writeNow(); attempt++) await pause(retryDelayMs(attempt), stop)
    this.closeEntries(true)
  }

  /** @returns whether the table has all of it now; never rejects. */
  async #writeNow (): Promise<boolean> {
    await this.#writing
    this.#writing = this.#write(this.#progress.recordedLedger.entries).finally(() => {
      this.#writing = null
      this.#nextAt = performance.now() + INTERVAL_MS
    })
    return await this.#writing
  }

  /** Whether the table has the entry with these totals. */
  readonly #isWritten = (key: string, entry: LedgerEntry): boolean => {
    const written = this.#written.get(key)
    return written !== undefined && written.source === entry.source && written.accepted === entry.accepted &&
      written.replayed === entry.replayed && written.duplicates === entry.duplicates &&
      written.deadLettered === entry.deadLettered
  }

  async #write (entries: Record<string, LedgerEntry>): Promise<boolean> {
    const changed = Object.entries(entries).filter(([key, entry]) => !this.#isWritten(key, entry))
    try {
      if (changed.length > 0) await this.#insert(changed.map(([key, entry]) => toLedgerRow(key, entry)))
    } catch (err) {
      this.#logger.warn({ err, entries: changed.length }, 'the ledger could not be written and will be retried')
      return false
    }
    for (const [key, entry] of changed) this.#written.set(key, entry)
    for (const key of this.#written.keys()) if (entries[key] === undefined) this.#written.delete(key)
    return true
  }
}
