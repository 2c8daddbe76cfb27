/** Counts the rows of the last hours again and again, reading each part of the table once. */
import { queryRows, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { countStored, type StoredCounts } from './check-books.ts'
import type { LedgerSpan } from './read-books.ts'
import { ledgerKey } from '../../schema/wire/ledger.ts'

/** Parts of one query: their names are sent in the URL. */
const PARTS_PER_QUERY = 500

/** How often the count begins again because merges replaced parts while they were counted. */
const MAX_TRIES = 8

/** Project, minute and rows, one after the other: 12 bytes each. */
type MinuteCounts = Uint32Array

const NOTHING: MinuteCounts = new Uint32Array(0)

/** A part of the table, as `system.parts` names it. */
interface Part {
  name: string
  /** All of them, whenever they were received. */
  rows: number
}

interface PartCount extends Part {
  counts: MinuteCounts
}

/**
 * The count of a part never changes: ClickHouse writes whatever it inserts, merges, changes or deletes into parts with
 * new names. So each round counts the parts that are new, instead of the day that the last hours are spread over.
 *
 * Most new parts are merged from parts that were counted. A merge keeps each row as it is or leaves it out: with as
 * many rows as all of its sources it has exactly theirs, and is not read. Each row is read once or twice, not after
 * each of its merges. That all of its sources were counted shows in its first and last block: numbers are given to
 * blocks as they appear in the table, so whatever is between two that were listed was listed with them.
 *
 * On a cluster every round counts the rows of the span, with all shards.
 */
export class PartCounts {
  readonly #clickhouse: ClickHouse
  readonly #cluster: string
  readonly #counts = new Map<string, PartCount>()
  #rowsRead = 0
  /** First minute that the counts hold. */
  #from = 0

  constructor ({ clickhouse, cluster }: { clickhouse: ClickHouse, cluster: string }) {
    this.#clickhouse = clickhouse
    this.#cluster = cluster
  }

  /** Rows that were read so far; for tests. */
  get rowsRead (): number {
    return this.#rowsRead
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

  async #listParts (): Promise<Part[]> {
    const parts = await queryRows<{ name: string, rows: string }>(this.#clickhouse,
      "SELECT name, rows FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events'")
    return parts.map(({ name, rows }) => ({ name, rows: Number(rows) }))
  }

  /** @returns whether all of these parts are counted: one that was replaced meanwhile may have been missed. */
  async #countNew (parts: readonly Part[]): Promise<boolean> {
    this.#addMerged(parts.filter(({ name }) => !this.#counts.has(name)))
    const fresh = parts.filter(({ name }) => !this.#counts.has(name))
    if (fresh.length === 0) return true
    const counts = new Map<string, number[]>()
    for (let at = 0; at < fresh.length; at += PARTS_PER_QUERY) {
      await this.#countParts(fresh.slice(at, at + PARTS_PER_QUERY).map(({ name }) => name), counts)
    }
    const active = new Set((await this.#listParts()).map(({ name }) => name))
    const certain = fresh.filter(({ name }) => active.has(name))
    for (const part of certain) {
      this.#counts.set(part.name, { ...part, counts: Uint32Array.from(counts.get(part.name) ?? NOTHING) })
      this.#rowsRead += part.rows
    }
    return certain.length === fresh.length
  }

  /** Counts the parts that are merged from counted ones. */
  #addMerged (fresh: readonly Part[]): void {
    if (fresh.length === 0) return
    const counted = [...this.#counts.values()].map((part) => ({ part, blocks: readBlocks(part.name) }))
    for (const part of fresh) {
      const blocks = readBlocks(part.name)
      const sources = counted.filter((each) => isWithin(each.blocks, blocks))
      if (blocks === null || !reaches(sources.map(({ blocks }) => blocks!), blocks)) continue
      if (sources.reduce((sum, { part: { rows } }) => sum + rows, 0) !== part.rows) continue
      this.#counts.set(part.name, { ...part, counts: addUp(sources.map(({ part: { counts } }) => counts)) })
    }
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

  #forget (parts: readonly Part[]): void {
    const active = new Set(parts.map(({ name }) => name))
    for (const part of this.#counts.keys()) if (!active.has(part)) this.#counts.delete(part)
  }

  #sum ({ from, to, projectId }: LedgerSpan): StoredCounts {
    const sums = new Map<string, number>()
    for (const part of this.#counts.values()) {
      const count = part.counts
      let isOver = true
      for (let i = 0; i < count.length; i += 3) {
        const minute = count[i + 1]!
        if (minute >= from) isOver = false
        if (minute < from || minute >= to || (projectId !== undefined && count[i] !== projectId)) continue
        const key = ledgerKey(count[i]!, minute)
        sums.set(key, (sums.get(key) ?? 0) + count[i + 2]!)
      }
      if (isOver) part.counts = NOTHING
    }
    return sums
  }
}

/** What the name of a part says: which blocks of inserts it holds, and the mutation that wrote it. */
interface Blocks {
  partition: string
  first: number
  last: number
  mutation: number
}

/** `<partition>_<first block>_<last block>_<level>[_<mutation>]`; null: another form, which says nothing. */
function readBlocks (name: string): Blocks | null {
  const [, partition, first, last, mutation = '0'] = /^([^_]+)_(\d+)_(\d+)_\d+(?:_(\d+))?$/.exec(name) ?? []
  if (partition === undefined) return null
  return { partition, first: Number(first), last: Number(last), mutation: Number(mutation) }
}

/** A mutation may have changed rows: its parts are read again. */
function isWithin (inner: Blocks | null, outer: Blocks | null): boolean {
  return inner !== null && outer !== null && inner.partition === outer.partition && inner.mutation === outer.mutation &&
    inner.first >= outer.first && inner.last <= outer.last
}

/** Whether the parts have the first and the last block of a range. */
function reaches (parts: readonly Blocks[], { first, last }: Blocks): boolean {
  return parts.some((part) => part.first === first) && parts.some((part) => part.last === last)
}

function addUp (all: readonly MinuteCounts[]): MinuteCounts {
  const sums = new Map<string, [project: number, minute: number, rows: number]>()
  for (const counts of all) {
    for (let i = 0; i < counts.length; i += 3) {
      const [project, minute, rows] = [counts[i]!, counts[i + 1]!, counts[i + 2]!]
      const key = ledgerKey(project, minute)
      const sum = sums.get(key) ?? [project, minute, 0]
      sum[2] += rows
      sums.set(key, sum)
    }
  }
  return Uint32Array.from([...sums.values()].flat())
}
