import { type ClickHouse, queryRows } from '../clickhouse/connect-clickhouse.ts'
import type { CompiledSchema } from './compile-schema.ts'
import { describeValue, generalise } from './describe-failure.ts'
import type { SchemaFailure } from './evaluation.ts'

/** Which stored events are checked: those of the last days by their timestamp, newest day first. */
export interface CheckQuery {
  projectId: number
  event: string
  /** Days before now, 1 to 365. */
  days: number
  /** Events at most. */
  limit: number
  /** Epoch milliseconds. */
  now: number
}

/** What a schema would have done with stored events; counts are exact for the events that were checked. */
export interface SchemaPrediction {
  /** Events that were checked, and how many of them meet the schema. */
  events: number
  met: number
  failed: number
  /** False when there are more events than the limit: the older ones were not checked. */
  complete: boolean
  /** Most events first. */
  failures: PredictedFailure[]
  /** By SDK, most failed events first. */
  libs: { lib: string, libVersion: string, events: number, failed: number }[]
}

/** What is wrong with how many events; an event with several failures counts under each. */
export interface PredictedFailure {
  /** JSON pointer into the properties, `*` for the places in arrays. */
  path: string
  keyword: string
  events: number
  samples: { uuid: string, value: string }[]
}

const DAY_MS = 86_400_000
const MAX_SAMPLES = 3

/** Kinds of failures, and SDKs, that are told apart: names of properties are anybody's choice. */
const MAX_GROUPS = 200

/** Checking lets other work of the process go on after so long, in milliseconds. */
const TURN_MS = 10

type Row = [uuid: string, lib: string, libVersion: string, properties: string]

/**
 * Runs a schema over stored events, with the check that ingest does: what it predicts is what enforcement does.
 *
 * @param onProgress  Called after each day with the events so far and the share of the days.
 */
export async function checkStoredEvents (
  clickhouse: ClickHouse, { check, failuresOf }: CompiledSchema,
  { onProgress, ...query }: CheckQuery & { onProgress?: (events: number, share: number) => void }
): Promise<SchemaPrediction> {
  const tally = new Tally()
  let turn = performance.now()
  for (let day = 0; day < query.days && tally.events <= query.limit; day++) {
    for await (const rows of readDay(clickhouse, query, { day, limit: query.limit + 1 - tally.events })) {
      for (const [uuid, lib, libVersion, text] of rows) {
        if (tally.events === query.limit) return tally.describe(false)
        const properties = JSON.parse(text) as Record<string, unknown>
        const failures = check(properties, 'stored') === null ? [] : failuresOf(properties, 'stored')
        tally.add({ uuid, lib, libVersion }, failures)
        if (performance.now() - turn < TURN_MS) continue
        await new Promise((resolve) => setImmediate(resolve))
        turn = performance.now()
      }
    }
    onProgress?.(tally.events, (day + 1) / query.days)
  }
  return tally.describe(true)
}

/** Counts the events that a check would read, to show its progress. */
export async function countStoredEvents (clickhouse: ClickHouse, query: CheckQuery): Promise<number> {
  const [row] = await queryRows<{ events: number }>(clickhouse, `
    SELECT toUInt32(count()) AS events FROM events
    WHERE project_id = {project: UInt32} AND event = {event: String}
      AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`,
  { project: query.projectId, event: query.event, from: query.now - query.days * DAY_MS, to: query.now })
  return Math.min(row?.events ?? 0, query.limit)
}

/** The events of one day; day 0 is the last 24 hours, with what came from clocks that are ahead. */
async function * readDay (
  clickhouse: ClickHouse, { projectId, event, now }: CheckQuery, { day, limit }: { day: number, limit: number }
): AsyncGenerator<Row[]> {
  const result = await clickhouse.query({
    query: `SELECT toString(uuid), lib, lib_version, properties FROM events
      WHERE project_id = {project: UInt32} AND event = {event: String}
        AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})
      LIMIT {limit: UInt32}`,
    query_params: {
      project: projectId,
      event,
      limit,
      from: now - (day + 1) * DAY_MS,
      to: day === 0 ? now + DAY_MS : now - day * DAY_MS
    },
    format: 'JSONCompactEachRow',
    clickhouse_settings: { wait_end_of_query: 0 }
  })
  for await (const rows of result.stream<Row>()) yield rows.map((row) => row.json<Row>())
}

/** Adds up what is wrong, in bounded memory. */
class Tally {
  events = 0
  #failed = 0
  readonly #failures = new Map<string, PredictedFailure>()
  readonly #libs = new Map<string, SchemaPrediction['libs'][number]>()

  add (
    { uuid, lib, libVersion }: { uuid: string, lib: string, libVersion: string }, failures: readonly SchemaFailure[]
  ): void {
    this.events++
    if (failures.length > 0) this.#failed++
    const sdk = take(this.#libs, JSON.stringify([lib, libVersion]), () => ({ lib, libVersion, events: 0, failed: 0 }))
    if (sdk !== undefined) {
      sdk.events++
      if (failures.length > 0) sdk.failed++
    }
    const seen = new Set<unknown>()
    for (const { path: sent, keyword, value } of failures) {
      const path = generalise(sent)
      const key = JSON.stringify([path, keyword])
      const group = take(this.#failures, key, () => ({ path, keyword, events: 0, samples: [] }))
      if (group === undefined || seen.has(group)) continue
      seen.add(group)
      group.events++
      if (group.samples.length < MAX_SAMPLES) group.samples.push({ uuid, value: describeValue(value) })
    }
  }

  describe (complete: boolean): SchemaPrediction {
    return {
      events: this.events,
      met: this.events - this.#failed,
      failed: this.#failed,
      complete,
      failures: [...this.#failures.values()].sort((one, other) => other.events - one.events),
      libs: [...this.#libs.values()].sort((one, other) => other.failed - one.failed || other.events - one.events)
    }
  }
}

function take<T> (groups: Map<string, T>, key: string, create: () => T): T | undefined {
  const known = groups.get(key)
  if (known !== undefined || groups.size >= MAX_GROUPS) return known
  const group = create()
  groups.set(key, group)
  return group
}
