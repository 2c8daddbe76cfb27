/** Counts the rows of the last hours again and again, reading each part of the table once. */
import { queryRows, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { countStored, type StoredCounts } from '../../platform/ledger/check-books.ts'
import type { LedgerSpan } from '../../platform/ledger/read-books.ts'
import { ledgerKey } from '../../schema/ledger.ts'

/** Parts of one query: their names are sent in the URL. */
const PARTS_PER_QUERY = 500

/** How often the count begins again because merges replaced parts while they were counted. */
const MAX_TRIES = 8

/** Project, minute and rows, one after the other: 12 bytes each. */
type PartCount = Uint32Array

const NOTHING: PartCount = new Uint32Array(0)

/**
 * The count of a part never changes: ClickHouse writes whatever it inserts, merges, changes or deletes into parts with
 * new names. So each round counts the parts that are new, a few percent of what merges cost, instead of the day that
 * the last hours are spread over.
 *
 * On a cluster every round counts the rows of the span, with all shards.
 */
export class PartCounts {
  readonly #clickhouse: ClickHouse
  readonly #cluster: string
  readonly #counts = new Map<string, PartCount>()
  /** First minute that the counts hold. */
  #from = 0

  constructor ({ clickhouse, cluster }: { clickhouse: ClickHouse, cluster: string }) {
    this.#clickhouse = clickhouse
    this.#cluster = cluster
  }

  /**
   * The rows of the span, all of one moment during the call.
   *
   * @throws when ClickHouse does not answer, or merges are quicker than the count.
   */
  async count (span: LedgerSpan): Promise<StoredCounts> {
    if (this.#cluster !== '') return await countStored({ clickhouse: this.#clickhouse, cluster: this.#cluster }, span)
    // What was counted does not hold earlier minutes.
    if (span.from < this.#from) this.#counts.clear()
    this.#from = span.from
    for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
      const parts = await this.#listParts()
      const isComplete = await this.#countNew(parts)
      this.#forget(parts)
      if (isComplete) return this.#sum(span)
    }
    throw new Error('merges replaced parts of events while they were counted')
  }

  async #listParts (): Promise<string[]> {
    const rows = await queryRows<{ name: string }>(this.#clickhouse,
      "SELECT name FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events'")
    return rows.map(({ name }) => name)
  }

  /** @returns whether all of these parts are counted: one that was replaced meanwhile may have been missed. */
  async #countNew (parts: readonly string[]): Promise<boolean> {
    const fresh = parts.filter((part) => !this.#counts.has(part))
    if (fresh.length === 0) return true
    const counts = new Map<string, number[]>()
    for (let at = 0; at < fresh.length; at += PARTS_PER_QUERY) {
      await this.#countParts(fresh.slice(at, at + PARTS_PER_QUERY), counts)
    }
    const active = new Set(await this.#listParts())
    const certain = fresh.filter((part) => active.has(part))
    for (const part of certain) this.#counts.set(part, Uint32Array.from(counts.get(part) ?? NOTHING))
    return certain.length === fresh.length
  }

  async #countParts (parts: readonly string[], counts: Map<string, number[]>): Promise<void> {
    const rows = await queryRows<{ part: string, project: number, minute: number, count: string }>(this.#clickhouse, `
      SELECT _part AS part, project_id AS project, toUInt32(intDiv(toUnixTimestamp(received_at), 60)) AS minute,
        count() AS count
      FROM events
      WHERE _part IN {parts: Array(String)} AND received_at >= toDateTime64({from: UInt32}, 3)
      GROUP BY part, project, minute SETTINGS final = 0`,
    { parts, from: this.#from * 60 })
    for (const { part, project, minute, count } of rows) {
      const list = counts.get(part) ?? []
      counts.set(part, list)
      list.push(project, minute, Number(count))
    }
  }

  #forget (parts: readonly string[]): void {
    const active = new Set(parts)
    for (const part of this.#counts.keys()) if (!active.has(part)) this.#counts.delete(part)
  }

  #sum ({ from, to, projectId }: LedgerSpan): StoredCounts {
    const sums = new Map<string, number>()
    for (const [part, count] of this.#counts) {
      let isOver = true
      for (let i = 0; i < count.length; i += 3) {
        const minute = count[i + 1]!
        if (minute >= from) isOver = false
        if (minute < from || minute >= to || (projectId !== undefined && count[i] !== projectId)) continue
        const key = ledgerKey(count[i]!, minute)
        sums.set(key, (sums.get(key) ?? 0) + count[i + 2]!)
      }
      if (isOver && count.length > 0) this.#counts.set(part, NOTHING)
    }
    return sums
  }
}
