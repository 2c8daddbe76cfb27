/**
 * Reads what a project received since the last look: stored events, and samples of dropped, quarantined and refused
 * ones.
 *
 * A look first reads totals that only grow: rows by insert (`inserted_at` has an index, and recent rows are in small
 * parts) and warnings by source and minute (the sort key). It then reads rows of what grew, as many as it shows. Counts
 * are exact, and the cost does not depend on the size of the table.
 *
 * Stored rows are read, because copying events on their way would cost every event, and report one whose insert may
 * still fail.
 */
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { NOT_STORED, WARNINGS_TABLE } from '../../../schema/wire/ingestion-warnings.ts'
import { isoTime } from '../receipts/stored-events.ts'
import type { LiveEvent } from './feed-batch.ts'

/** Which events somebody watches. An empty text is any. */
export interface Watched { project: number, event: string, distinctId: string }

export interface Arrivals {
  /** Matching events; `events` are some of them. */
  matched: number
  events: LiveEvent[]
}

/** Stored events that one look shows, and samples of each reason: the newest. */
const SHOWN_EVENTS = 200
const SHOWN_SAMPLES = 20

/**
 * Overlap of two looks, in milliseconds: replicas lag, and the clocks of servers that insert differ. After an outage of
 * ClickHouse, a look covers at most the last minute.
 */
const OVERLAP_MS = 4000
const LONGEST_LOOK_MS = 60_000

/** Minutes of receipt whose warnings are compared: those of a spool that is drained come late. */
const WARNING_MINUTES = 10

/** Characters of properties that one event, and one look, shows. */
const MAX_PROPERTIES = 16_384
const MAX_PROPERTIES_TOGETHER = 524_288

/** Events, or samples, that are known to have been shown. */
const REMEMBERED = 10_000

const TIMEOUT_MS = 5000

/** One thread: watching must not compete with inserts. */
const LIMITS = `SETTINGS final = 0, max_threads = 1, max_execution_time = ${TIMEOUT_MS / 1000}, max_memory_usage = 500000000`

/** A total that only grows, and its key. */
interface Total { key: string, count: number }

interface InsertTotal extends Total { token: string, insertedAt: string }

interface WarningTotal extends Total { reason: string, minute: number }

interface StoredRow {
  at: number
  event: string
  distinctId: string
  uuid: string
  lib: string
  libVersion: string
  timestamp: string
  /** Its properties; empty when they are too long. */
  sent: string
  characters: number
}

type SampleRow = Pick<LiveEvent, 'at' | 'event' | 'distinctId' | 'uuid' | 'lib' | 'libVersion' | 'value'> & { reason: string, effect: string }

/** Reads arrivals for one watch, again and again. */
export class ArrivalReader {
  readonly #clickhouse: Pick<ClickHouse, 'query'>
  readonly #watched: Watched
  /** Totals of the last look, and when it began. Warnings: null after a first look that failed. */
  #known: { inserts: Map<string, number>, warnings: Map<string, number> | null, at: number } | null = null
  readonly #shown = new Set<string>()

  constructor (clickhouse: Pick<ClickHouse, 'query'>, watched: Watched) {
    this.#clickhouse = clickhouse
    this.#watched = watched
  }

  /**
   * Reads what came since the last time; the first time nothing.
   *
   * @throws when ClickHouse does not answer in time; the next look covers what came meanwhile.
   */
  async read (): Promise<Arrivals> {
    const at = performance.now()
    try {
      return await this.#readSince(at)
    } catch (error) {
      // Whatever is stored from the first look on is new, also if ClickHouse was unavailable then. The next query may
      // run late, so a little of what was stored before is, too.
      this.#known ??= { inserts: new Map(), warnings: null, at: at + OVERLAP_MS / 2 }
      throw error
    }
  }

  async #readSince (at: number): Promise<Arrivals> {
    const known = this.#known
    const [inserts, warnings] = await Promise.all([
      // The first look goes further back than the second one will, however late its query runs.
      this.#countInserts(Math.min(LONGEST_LOOK_MS, OVERLAP_MS + (known === null ? OVERLAP_MS : at - known.at))),
      this.#countWarnings()
    ])
    const newInserts = known === null ? [] : findGrown(inserts, known.inserts)
    const grownWarnings = findGrown(warnings, known?.warnings ?? new Map())
    const [stored, samples] = await Promise.all([this.#readStored(newInserts), this.#readSamples(grownWarnings)])
    this.#known = { inserts: toMap(inserts), warnings: toMap(warnings), at }
    // An insert that touches several months or shards may become visible in parts.
    const newStored = stored.filter(({ uuid }) => this.#isNew(uuid))
    const newSamples = samples.filter((sample) => this.#isNew(JSON.stringify(sample)))
    const storedEvents = describeStored(newStored)
    if (known === null || known.warnings === null) return { matched: sumOf(newInserts), events: storedEvents }
    const { event, distinctId } = this.#watched
    // Warnings are counted by reason; only their samples have names.
    const notStored = event === '' && distinctId === '' ? sumOf(grownWarnings) : newSamples.length
    const events = [...storedEvents, ...newSamples.map(describeSample)]
    return { matched: sumOf(newInserts) + notStored, events: events.sort((one, other) => one.at - other.at) }
  }

  /** Newest first. */
  async #countInserts (forMs: number): Promise<InsertTotal[]> {
    const rows = await this.#ask<Omit<InsertTotal, 'key'>>(`
      SELECT insert_token AS token, toString(events.inserted_at) AS insertedAt, toUInt32(count()) AS count FROM events
      WHERE project_id = {project: UInt32} AND events.inserted_at > now64(3) - toIntervalMillisecond({forMs: UInt32})
        AND ${this.#matching('event', 'distinct_id')}
      GROUP BY insert_token, events.inserted_at ORDER BY events.inserted_at DESC`, { forMs: Math.ceil(forMs) })
    return rows.map((row) => ({ ...row, key: `${row.insertedAt} ${row.token}` }))
  }

  /** The newest rows of the newest inserts. */
  async #readStored (inserts: readonly InsertTotal[]): Promise<StoredRow[]> {
    let rows = 0
    const read = inserts.filter(({ count }) => (rows += count) - count < SHOWN_EVENTS)
    const oldest = read.at(-1)
    if (oldest === undefined) return []
    return await this.#ask<StoredRow>(`
      SELECT toFloat64(toUnixTimestamp64Milli(events.received_at)) AS at, event, distinct_id AS distinctId, toString(events.uuid) AS uuid,
        lib, lib_version AS libVersion, ${isoTime('events.timestamp')} AS timestamp, toUInt32(lengthUTF8(properties)) AS characters,
        if(length(properties) <= ${MAX_PROPERTIES}, properties, '') AS sent
      FROM events WHERE project_id = {project: UInt32} AND events.inserted_at >= toDateTime64({oldest: String}, 3, 'UTC')
        AND insert_token IN {tokens: Array(String)} AND ${this.#matching('event', 'distinct_id')}
      ORDER BY events.received_at DESC LIMIT ${SHOWN_EVENTS}`,
    { oldest: oldest.insertedAt, tokens: read.map(({ token }) => token) })
  }

  async #countWarnings (): Promise<WarningTotal[]> {
    const rows = await this.#ask<Omit<WarningTotal, 'key'> & { source: string }>(`
      SELECT reason, source, toUnixTimestamp(minute) AS minute, toUInt32(max(count)) AS count FROM ${WARNINGS_TABLE}
      WHERE project_id = {project: UInt32} AND minute > now() - toIntervalMinute(${WARNING_MINUTES}) AND reason IN {reasons: Array(String)}
      GROUP BY reason, source, minute`, { reasons: [...NOT_STORED] })
    return rows.map(({ source, ...row }) => ({ ...row, key: `${row.reason} ${row.minute} ${source}` }))
  }

  /** The newest samples of each reason that grew, new or not. */
  async #readSamples (warnings: readonly WarningTotal[]): Promise<SampleRow[]> {
    if (warnings.length === 0) return []
    return await this.#ask<SampleRow>(`
      SELECT reason, any(effect) AS effect, toFloat64(toUnixTimestamp64Milli(sample.received_at)) AS at, sample.event AS event,
        sample.distinct_id AS distinctId, sample.uuid AS uuid, sample.lib AS lib, sample.lib_version AS libVersion, sample.value AS value
      FROM ${WARNINGS_TABLE} ARRAY JOIN samples AS sample
      WHERE project_id = {project: UInt32} AND minute >= toDateTime({from: UInt32}) AND reason IN {reasons: Array(String)}
        AND ${this.#matching('sample.event', 'sample.distinct_id')}
      GROUP BY reason, at, event, distinctId, uuid, lib, libVersion, value
      ORDER BY at DESC LIMIT ${SHOWN_SAMPLES} BY reason`,
    {
      from: Math.min(...warnings.map(({ minute }) => minute)),
      reasons: [...new Set(warnings.map(({ reason }) => reason))]
    })
  }

  #matching (event: string, distinctId: string): string {
    const { event: name, distinctId: id } = this.#watched
    return [name !== '' && `${event} = {event: String}`, id !== '' && `${distinctId} = {distinctId: String}`]
      .filter((each) => each !== false).join(' AND ') || '1'
  }

  async #ask<T> (query: string, params: Record<string, unknown>): Promise<T[]> {
    const result = await this.#clickhouse.query({
      query: `${query} ${LIMITS}`, query_params: { ...this.#watched, ...params }, format: 'JSONEachRow', abort_signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    return await result.json<T>()
  }

  #isNew (identity: string): boolean {
    const isNew = !this.#shown.has(identity)
    this.#shown.add(identity)
    const [oldest] = this.#shown
    if (this.#shown.size > REMEMBERED && oldest !== undefined) this.#shown.delete(oldest)
    return isNew
  }
}

/** Those that grew, with what they grew by. */
function findGrown<T extends Total> (totals: readonly T[], known: ReadonlyMap<string, number>): T[] {
  return totals.map((total) => ({ ...total, count: total.count - (known.get(total.key) ?? 0) }))
    .filter(({ count }) => count > 0)
}

function toMap (totals: readonly Total[]): Map<string, number> {
  return new Map(totals.map(({ key, count }) => [key, count]))
}

function sumOf (totals: readonly Total[]): number {
  return totals.reduce((sum, { count }) => sum + count, 0)
}

function describeStored (rows: readonly StoredRow[]): LiveEvent[] {
  let room = MAX_PROPERTIES_TOGETHER
  return rows.map(({ timestamp, sent: properties, characters, ...row }) => {
    room -= properties.length
    const isShown = properties !== '' && room >= 0
    const { event, distinctId, uuid } = row
    // The properties stay text: parsed numbers would lose digits.
    const fields = JSON.stringify({ event, distinct_id: distinctId, uuid, timestamp }).slice(0, -1)
    return {
      ...row, drop: null, isQuarantined: false, value: '',
      sent: isShown ? `${fields},"properties":${properties}}` : '', sentCharacters: isShown ? 0 : characters
    }
  })
}

function describeSample ({ reason, effect, ...sample }: SampleRow): LiveEvent {
  const isQuarantined = effect === 'quarantined'
  return { ...sample, drop: isQuarantined ? null : reason, isQuarantined, sent: '', sentCharacters: 0 }
}
