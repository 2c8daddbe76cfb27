/**
 * The books: what ingest published must be stored, be a duplicate, be dead-lettered, or have been deleted.
 *
 * Each message of EVENTS says in a header how many events of which project and minute of receipt it holds, so the
 * accepted side is exactly as durable as the events. The owner of a partition adds up what became of them in the
 * partition's record, with its progress, and copies the sums into `LEDGER_TABLE`
 * (docs/decisions/0023-books-are-kept-with-the-progress.md). The stored side is counted from `events` itself.
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

/** Counts the events of an open message. Almost every event is of the project and minute of the one before. */
export class AcceptedCounter {
  readonly #counts = new Map<string, number>()
  #projectId = -1
  #minuteBegin = 0
  #events = 0

  add (projectId: number, receivedAt: number): void {
    const sinceBegin = receivedAt - this.#minuteBegin
    if (projectId === this.#projectId && sinceBegin >= 0 && sinceBegin < MINUTE_MS) {
      this.#events++
      return
    }
    this.#put()
    this.#projectId = projectId
    this.#minuteBegin = minuteOfReceipt(receivedAt) * MINUTE_MS
    this.#events = 1
  }

  /** Takes the counts as the text of header `HEADER.accepted`, and starts over. */
  take (): string {
    this.#put()
    const text = [...this.#counts].map(([key, events]) => `${key}:${events}`).join(',')
    this.#counts.clear()
    this.#projectId = -1
    return text
  }

  #put (): void {
    if (this.#projectId === -1) return
    const key = `${this.#projectId}:${this.#minuteBegin / MINUTE_MS}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + this.#events)
    this.#events = 0
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
  /** Events of dead letters that were replayed. */
  replayed: number
  /** Already stored. */
  duplicates: number
  deadLettered: number
}

/** What is kept of the books in a partition's record. */
export interface PartitionLedger {
  /** Every event received in this minute or later is in the books; minutes since 1970. */
  openedAt: number
  /** `done` and `doneRows` of the record for which the entries hold: versions without books move only those. */
  done: number
  doneRows: number
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
