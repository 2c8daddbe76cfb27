import type { ClickHouseSettings } from '@clickhouse/client'
import type { ClickHouse } from '../clickhouse/connect-clickhouse.ts'
import { clickHouseCodeOf } from '../clickhouse/clickhouse-errors.ts'
import type { CompiledSchema } from './compile-schema.ts'
import { type JudgedEvents, MAX_SAMPLES, PredictionTally, type SchemaPrediction } from './prediction.ts'
import { createEventClasses, type EventClasses } from './value-classes.ts'
import { needsOf } from './value-needs.ts'

/** Which stored events are checked: those of the last days by their timestamp, newest hours first. */
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

export interface CheckOptions extends CheckQuery {
  /** Called as it goes on, with the events that were checked and those that there are to check. */
  onProgress?: (events: number, total: number) => void
  /** Ends the check, which throws. */
  signal?: AbortSignal
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Events of one round at least, when there are more: one round takes about a second. */
const ROUND_EVENTS = 500_000

/** Classes of one round at most; with more, the events are read one by one. */
const MAX_CLASSES = 20_000

/** Longer events are read one by one, in bytes of their JSON: each class holds one event in memory. */
const MAX_CLASSED_BYTES = 8192

/** Checking lets other work of the process go on after so long, in milliseconds. */
const TURN_MS = 10

/**
 * ClickHouse forms the classes of one round for so long at most, in seconds; then the events are read one by one, which
 * answers bit by bit. Less than the 60 s for which a client waits for the first byte.
 */
const MAX_CLASS_SECONDS = 30

/** Of ClickHouse: `TOO_MANY_ROWS`, there are more classes than were asked for; `TIMEOUT_EXCEEDED`. */
const GIVEN_UP_CODES = [158, 159]

const CLASS_SETTINGS: ClickHouseSettings = {
  max_rows_to_group_by: String(MAX_CLASSES), group_by_overflow_mode: 'throw', max_execution_time: MAX_CLASS_SECONDS
}

/** Events of some hours. */
interface Round {
  /** Epoch milliseconds; `to` is not in it. */
  from: number
  to: number
  events: number
  /** Not all events of the hours are checked. */
  limit?: number
}

/**
 * Says what a schema would have done with stored events: what it predicts is what enforcement does.
 *
 * ClickHouse puts the events into classes about which the schema says the same (`value-classes.ts`), by the shape of
 * their properties where that decides; the check of ingest then judges one event of each. Events of which nearly each
 * would be a class of its own are read one by one.
 */
export async function checkStoredEvents (
  clickhouse: ClickHouse, compiled: CompiledSchema, { onProgress, signal, ...query }: CheckOptions
): Promise<SchemaPrediction> {
  const reader = createReader(clickhouse, query, signal)
  const rounds = await reader.readRounds()
  const stored = rounds.reduce((sum, { events }) => sum + events, 0)
  const total = Math.min(stored, query.limit)
  const tally = new PredictionTally()
  let classes = createEventClasses(needsOf(compiled.schema))
  for (const round of limitRounds(rounds, query.limit)) {
    onProgress?.(tally.events, total)
    const found = classes === null || round.limit !== undefined ? null : await reader.readClasses(round, classes)
    if (found !== null) {
      for (const { properties, ...events } of found) tally.add(events, compiled.failuresOf(properties, 'stored'))
      await addEach(reader.readEvents(round, classes!), compiled, tally)
    } else {
      // What varies so much in one round does so in the others.
      if (round.limit === undefined) classes = null
      await addEach(reader.readEvents(round), compiled, tally)
    }
  }
  onProgress?.(tally.events, total)
  const sampled = await reader.readSampled(tally.sampledUuids())
  const failures = new Map(sampled.map(({ uuid, properties }) =>
    [uuid, compiled.failuresOf(JSON.parse(properties) as Record<string, unknown>, 'stored')]))
  return tally.describe(stored <= query.limit, failures)
}

/** Counts the events that a check would look at, to show its progress. */
export async function countStoredEvents (clickhouse: ClickHouse, query: CheckQuery): Promise<number> {
  const rounds = await createReader(clickhouse, query).readRounds()
  return Math.min(rounds.reduce((sum, { events }) => sum + events, 0), query.limit)
}

/** Judges events one by one. */
async function addEach (
  events: AsyncIterable<EventRow[]>, { check, failuresOf }: CompiledSchema, tally: PredictionTally
): Promise<void> {
  let turn = performance.now()
  for await (const rows of events) {
    for (const [uuid, lib, libVersion, text] of rows) {
      const properties = JSON.parse(text) as Record<string, unknown>
      const failures = check(properties, 'stored') === null ? [] : failuresOf(properties, 'stored')
      tally.add({ lib, libVersion, events: 1, uuids: [uuid] }, failures)
      if (performance.now() - turn < TURN_MS) continue
      await new Promise((resolve) => setImmediate(resolve))
      turn = performance.now()
    }
  }
}

/** The newest rounds, as many as the limit needs; of the last, only some events. */
function limitRounds (rounds: readonly Round[], limit: number): Round[] {
  const limited: Round[] = []
  let left = limit
  for (const round of rounds) {
    if (left <= 0) break
    limited.push(round.events > left ? { ...round, limit: left } : round)
    left -= round.events
  }
  return limited
}

type EventRow = [uuid: string, lib: string, libVersion: string, properties: string]

/** Events of a class, and the properties of one of them, or those that decide. */
interface EventClass extends JudgedEvents {
  properties: Record<string, unknown>
}

const IS_LONG = `length(properties) > ${MAX_CLASSED_BYTES}`

const FROM = `FROM events
  WHERE project_id = {project: UInt32} AND event = {event: String}
    AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`

/** Reads stored events of a name. */
function createReader (
  clickhouse: ClickHouse, { projectId: project, event, now, days }: CheckQuery, signal?: AbortSignal
) {
  // With what came from clocks that are ahead.
  const all = { from: now - days * DAY_MS, to: now + DAY_MS }

  return { readRounds, readClasses, readEvents, readSampled }

  /** The hours that have events, newest first, several together when each has few. */
  async function readRounds (): Promise<Round[]> {
    const hours = await select<{ hour: number, events: string }>(`
      SELECT toUInt32(greatest(0, intDiv({now: Int64} - toUnixTimestamp64Milli(timestamp) - 1, ${HOUR_MS}))) AS hour, count() AS events
      ${FROM} GROUP BY hour ORDER BY hour`, { ...all, now })
    const rounds: Round[] = []
    for (const { hour, events } of hours) {
      const last = rounds.at(-1)
      const from = now - (hour + 1) * HOUR_MS
      if (last !== undefined && last.events < ROUND_EVENTS) {
        last.from = from
        last.events += Number(events)
      } else {
        rounds.push({ from, to: hour === 0 ? all.to : now - hour * HOUR_MS, events: Number(events) })
      }
    }
    return rounds
  }

  /** @returns null when there are too many classes, or finding them takes too long. */
  async function readClasses (
    { from, to }: Round, classes: EventClasses
  ): Promise<EventClass[] | null> {
    const { isDecided, present, names, classOf } = classes
    const define = defineIn(classes)
    const uuids = `groupArray(${MAX_SAMPLES})(toString(uuid)) AS uuids`
    try {
      const decided = await select<ClassRow & { present: number[] }>(`
        SELECT lib, lib_version, present, count() AS events, ${uuids}
        FROM (${define} SELECT lib, lib_version, uuid, ${present} AS present ${FROM} AND ${isDecided})
        GROUP BY lib, lib_version, present`, { from, to }, CLASS_SETTINGS)
      const others = await select<ClassRow & { properties: string }>(`
        SELECT lib, lib_version, count() AS events, ${uuids}, any(properties) AS properties
        FROM (${define} SELECT lib, lib_version, uuid, properties, ${classOf} AS class ${FROM} AND NOT (${isDecided}) AND NOT (${IS_LONG}))
        GROUP BY lib, lib_version, class`, { from, to }, CLASS_SETTINGS)
      return [
        // Any text does: that it is one, or that it is there, is all that is asked.
        ...decided.map(({ present, ...row }) =>
          ({ ...readClass(row), properties: Object.fromEntries(present.map((at) => [names[at - 1]!, ''])) })),
        ...others.map(({ properties, ...row }) =>
          ({ ...readClass(row), properties: JSON.parse(properties) as Record<string, unknown> }))
      ]
    } catch (error) {
      if (GIVEN_UP_CODES.includes(clickHouseCodeOf(error) ?? 0)) return null
      throw error
    }
  }

  /** Those of a round; with classes, only those that are of none. */
  async function * readEvents ({ from, to, limit }: Round, classes?: EventClasses): AsyncGenerator<EventRow[]> {
    const define = classes === undefined ? '' : defineIn(classes)
    const condition = classes === undefined ? '' : `AND NOT (${classes.isDecided}) AND ${IS_LONG}`
    const result = await clickhouse.query({
      query: `${define} SELECT toString(uuid), lib, lib_version, properties ${FROM} ${condition}
        ${limit === undefined ? '' : `LIMIT ${limit}`}`,
      query_params: { project, event, from, to },
      format: 'JSONCompactEachRow',
      clickhouse_settings: { wait_end_of_query: 0 },
      ...signal && { abort_signal: signal }
    })
    for await (const rows of result.stream<EventRow>()) yield rows.map((row) => row.json<EventRow>())
  }

  async function readSampled (uuids: readonly string[]): Promise<{ uuid: string, properties: string }[]> {
    if (uuids.length === 0) return []
    return await select(`SELECT uuid, properties ${FROM} AND uuid IN {uuids: Array(UUID)}`, { ...all, uuids })
  }

  async function select<T> (
    query: string, parameters: Record<string, unknown>, settings: ClickHouseSettings = {}
  ): Promise<T[]> {
    const result = await clickhouse.query({
      query,
      query_params: { project, event, ...parameters },
      format: 'JSONEachRow',
      clickhouse_settings: settings,
      ...signal && { abort_signal: signal }
    })
    return await result.json<T>()
  }
}

function defineIn ({ definitions }: EventClasses): string {
  return definitions.length === 0 ? '' : `WITH ${definitions.join(', ')}`
}

interface ClassRow {
  lib: string
  lib_version: string
  events: string | number
  uuids: string[]
}

function readClass ({ lib, lib_version: libVersion, events, uuids }: ClassRow): JudgedEvents {
  return { lib, libVersion, events: Number(events), uuids }
}
