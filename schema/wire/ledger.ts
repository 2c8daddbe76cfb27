/**
 * The books: what ingest published must be stored, be a duplicate, be dead-lettered, or have been deleted.
 *
 * Each message of EVENTS says in a header how many events of which project and minute of receipt it holds, so the
 * accepted side is exactly as durable as the events. The owner of a partition adds up what became of them in the
 * partition's record, with its progress, and copies the sums into `LEDGER_TABLE`
 * (docs/decisions/0023-ledger-commits-with-progress.md). The stored side is counted from `events` itself.
 */

const MINUTE_MS = 60_000

/** The minute of receipt, in minutes since 1970, of exactly the value in column `received_at` (epoch milliseconds). */
export function minuteOfReceipt (receivedAt: number): number {
  return Math.floor(receivedAt / MINUTE_MS)
}

/** How many events of a project and minute a message holds. */
export interface AcceptedCount {
  projectId: number
  /** Minutes since 1970. */
  minute: number
  events: number
}

const NOBODY: AcceptedCount = { projectId: -1, minute: -1, events: 0 }

/** Counts the events of an open message. Almost every event is of the project and minute of the one before. */
export class AcceptedCounter {
  readonly #counts: AcceptedCount[] = []
  /** By project, those of the latest minute. */
  readonly #ofMinute = new Map<number, AcceptedCount>()
  #minuteBegin = 0
  #current: AcceptedCount = NOBODY

  add (projectId: number, receivedAt: number): void {
    const sinceBegin = receivedAt - this.#minuteBegin
    if (sinceBegin < 0 || sinceBegin >= MINUTE_MS) this.#turnTo(minuteOfReceipt(receivedAt))
    if (this.#current.projectId !== projectId) this.#current = this.#find(projectId)
    this.#current.events++
  }

  /** Takes the counts as the text of header `HEADER.accepted`, and starts over. */
  take (): string {
    const text = this.#counts.map(({ projectId, minute, events }) => `${projectId}:${minute}:${events}`).join(',')
    this.#counts.length = 0
    this.#turnTo(0)
    return text
  }

  #turnTo (minute: number): void {
    this.#minuteBegin = minute * MINUTE_MS
    this.#current = NOBODY
    this.#ofMinute.clear()
    for (const count of this.#counts) if (count.minute === minute) this.#ofMinute.set(count.projectId, count)
  }

  #find (projectId: number): AcceptedCount {
    const known = this.#ofMinute.get(projectId)
    if (known !== undefined) return known
    const count = { projectId, minute: this.#minuteBegin / MINUTE_MS, events: 0 }
    this.#counts.push(count)
    this.#ofMinute.set(projectId, count)
    return count
  }
}

/** Reads the header; null when it is missing, or no such text. */
export function readAccepted (text: string | undefined): AcceptedCount[] | null {
  if (text === undefined) return null
  const counts: AcceptedCount[] = []
  for (const part of text.split(',')) {
    const match = /^(\d{1,10}):(\d{1,9}):(\d{1,9})$/.exec(part)
    if (match === null) return null
    counts.push({ projectId: Number(match[1]), minute: Number(match[2]), events: Number(match[3]) })
  }
  return counts
}

/**
 * What became of the events of a project and minute, of one partition. Totals only grow, so the highest one is the
 * last, however often and in which order they are written.
 */
export interface LedgerEntry {
  /** Partition, life of its stream, and the position after which the entry began: one that ended is never continued. */
  source: string
  /** Events of messages of ingest. */
  accepted: number
  /** Events of replayed dead letters of stage `writer`: others were never accepted before. */
  replayed: number
  /** Already stored. */
  duplicates: number
  deadLettered: number
}

/** The part of the books in a partition's record. */
export interface PartitionLedger {
  /** Every event received in this minute or later is in the books; minutes since 1970. */
  openedAt: number
  /** By `ledgerKey`. Entries leave when they are in the table and their minute is over for some time. */
  entries: Record<string, LedgerEntry>
}

export function ledgerKey (projectId: number, minute: number): string {
  return `${projectId}:${minute}`
}

export function readLedgerKey (key: string): { projectId: number, minute: number } {
  const [projectId, minute] = key.split(':')
  return { projectId: Number(projectId), minute: Number(minute) }
}

/** The table that takes the totals; `ledger` is the view over it that people read. */
export const LEDGER_TABLE = 'ledger_by_source'

/**
 * Events of projects in a span of receipt, by minute and source: accepted, replayed, duplicates, dead-lettered. The
 * table has running totals, of which the highest one of each source is the last.
 *
 * @param table  `LEDGER_TABLE`, of one node or of each shard.
 */
export function ledgerTotals (table: string): string {
  return `
    SELECT project_id, minute, source, max(accepted) AS a, max(replayed) AS r, max(duplicates) AS d, max(dead_lettered) AS l
    FROM ${table}
    WHERE project_id IN {projects: Array(UInt32)}
      AND minute >= toDateTime({from: UInt32}) AND minute < toDateTime({to: UInt32})
    GROUP BY project_id, minute, source`
}

/** A row of `LEDGER_TABLE` as JSONEachRow takes it. */
export function toLedgerRow (key: string, entry: LedgerEntry): Record<string, unknown> {
  const { projectId, minute } = readLedgerKey(key)
  return {
    project_id: projectId,
    minute: minute * 60,
    source: entry.source,
    accepted: entry.accepted,
    replayed: entry.replayed,
    duplicates: entry.duplicates,
    dead_lettered: entry.deadLettered
  }
}
