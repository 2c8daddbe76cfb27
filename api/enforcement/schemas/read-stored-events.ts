/** Reads stored events of a name for a check, in rounds of some hours. */
import type { ClickHouseSettings } from '@clickhouse/client'
import { clickHouseCodeOf } from '../../../platform/clickhouse/clickhouse-errors.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { CheckQuery } from './check-stored-events.ts'
import { MAX_SAMPLES } from './prediction.ts'
import type { StoredValues } from './stored-values.ts'
import type { ValueClasses } from './value-classes.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Events of one round at least, when there are more: one round takes about a second. */
const ROUND_EVENTS = 500_000

/** Events of some hours. */
export interface Round {
  /** Epoch milliseconds; `to` is not in it. */
  from: number
  to: number
  events: number
  /** Not all events of the hours are checked. */
  limit?: number
}

/** A line of a result: JSON of `StoredEvents`. JSON in JSON would have to be escaped, which takes twice the time. */
export interface Line {
  text: string
}

/** Events that have the same properties, as far as these were asked for; null: the shape does not decide. */
export type StoredEvents = [
  uuids: string[], lib: string, libVersion: string, events: number, properties: Record<string, unknown> | null
]

/**
 * What ClickHouse may use to find events that have the same, in one round; then it gives up. When values vary, that is
 * after some milliseconds. Groups are answered all at once: the time is less than the 60 s for which a client waits.
 */
const GROUP_SETTINGS: ClickHouseSettings = {
  max_rows_to_group_by: '20000',
  group_by_overflow_mode: 'throw',
  max_execution_time: 30,
  max_memory_usage: '1000000000',
  wait_end_of_query: 1
}

/** `TOO_MANY_ROWS`, `TIMEOUT_EXCEEDED`, `MEMORY_LIMIT_EXCEEDED`, `CANNOT_COMPILE_REGEXP`. */
const GIVEN_UP_CODES = [158, 159, 241, 427]

/** What is computed for some rows only is computed for copies of these, which takes longer than for all rows. */
const VALUE_SETTINGS: ClickHouseSettings = { short_circuit_function_evaluation: 'disable' }

const FROM = `FROM events
  WHERE project_id = {project: UInt32} AND event = {event: String}
    AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`

/** What a schema tells apart, of the events that meet a condition. */
export interface EventClasses extends Pick<ValueClasses, 'definitions' | 'keys'> {
  /** SQL that begins with AND; empty: all. */
  condition: string
}

/** Events that a share is told by. */
const EVENTS_OF_SHARE = 10_000

const COUNTED = `count() AS events, groupArray(${MAX_SAMPLES})(uuid) AS uuids`

/** SQL of JSON. */
const UUIDS = 'toJSONString(arrayMap(each -> toString(each), uuids))'

function limitOf ({ limit }: Round): string {
  return limit === undefined ? '' : `LIMIT ${limit}`
}

/** Whether events have so many different shapes or values that they have to be read one by one. */
export function isGivenUp (error: unknown): boolean {
  return GIVEN_UP_CODES.includes(clickHouseCodeOf(error) ?? 0)
}

/** Reads stored events of a name. What gives groups may give up (`isGivenUp`) before its first line. */
export function createEventReader (
  clickhouse: ClickHouse, { projectId: project, event, now, days }: CheckQuery, signal?: AbortSignal
) {
  // With what came from clocks that are ahead.
  const all = { from: now - days * DAY_MS, to: now + DAY_MS }

  return { readRounds, readShapes, readOpen, readShare, readClasses, readEvents, readSampled }

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

  /** Counts events by their shapes. */
  function readShapes (round: Round, { isDecided, ofShape }: StoredValues): AsyncGenerator<Line[]> {
    return readLines(round, `
      SELECT ${lineOf(UUIDS, 'toString(events)', `if(${isDecided}, ${ofShape}, 'null')`)}
      FROM (
        SELECT lib, lib_version, property_types, ${COUNTED} ${FROM} GROUP BY lib, lib_version, property_types)`, GROUP_SETTINGS)
  }

  /** Which properties the shapes of events leave open. */
  async function readOpen (round: Round, open: string, condition: string): Promise<boolean[]> {
    const { from, to } = round
    const [row] = await select<{ open: number[] }>(`SELECT maxForEach(${open}) AS open ${FROM} ${condition}`, { from, to })
    return row?.open.map((each) => each === 1) ?? []
  }

  /** Of how many events a condition holds, by some of them: 0 to 1. */
  async function readShare (
    { from, to }: Round, { definitions, condition }: Pick<EventClasses, 'definitions' | 'condition'>, isMet: string
  ): Promise<number> {
    const [row] = await select<{ share: number | null }>(`
      WITH ${definitions.join(',\n')}
      SELECT avg(${isMet}) AS share
      FROM (SELECT property_types, properties ${FROM} ${condition} LIMIT ${EVENTS_OF_SHARE})`, { from, to })
    return row?.share ?? 0
  }

  /** Counts events by what a schema tells apart. */
  function readClasses (round: Round, { definitions, keys, condition }: EventClasses): AsyncGenerator<Line[]> {
    const named = keys.map((_, index) => `key_${index}`)
    const events = `FROM (SELECT uuid, lib, lib_version, property_types, properties ${FROM} ${limitOf(round)})`
    return readLines(round, `
      SELECT ${lineOf(UUIDS, 'toString(events)', "translate(sample, '\\n', ' ')")}
      FROM (
        WITH ${definitions.join(',\n')}
        SELECT lib, lib_version, ${keys.map((key, index) => `${key} AS ${named[index]}`).join(', ')}, any(properties) AS sample, ${COUNTED}
        ${round.limit === undefined ? FROM : events} ${condition} GROUP BY lib, lib_version, ${named.join(', ')})`, GROUP_SETTINGS)
  }

  /** Each event by itself. */
  function readEvents (
    round: Round, values: string, { definitions, condition }: Pick<EventClasses, 'definitions' | 'condition'>
  ): AsyncGenerator<Line[]> {
    return readLines(round, `
      ${definitions.length === 0 ? '' : `WITH ${definitions.join(',\n')}`}
      SELECT ${lineOf("concat('[\"', toString(uuid), '\"]')", "'1'", values)} ${FROM} ${condition} ${limitOf(round)}`, { wait_end_of_query: 0 })
  }

  async function * readLines (
    { from, to }: Round, query: string, settings: ClickHouseSettings
  ): AsyncGenerator<Line[]> {
    const result = await clickhouse.query({
      query,
      query_params: { project, event, from, to },
      format: 'TabSeparatedRaw',
      clickhouse_settings: { ...VALUE_SETTINGS, ...settings },
      ...signal && { abort_signal: signal }
    })
    yield * result.stream()
  }

  async function readSampled (uuids: readonly string[]): Promise<{ uuid: string, properties: string }[]> {
    if (uuids.length === 0) return []
    return await select(`SELECT uuid, properties ${FROM} AND uuid IN {uuids: Array(UUID)}`, { ...all, uuids })
  }

  async function select<T> (query: string, parameters: Record<string, unknown>): Promise<T[]> {
    const result = await clickhouse.query({
      query,
      query_params: { project, event, ...parameters },
      format: 'JSONEachRow',
      ...signal && { abort_signal: signal }
    })
    return await result.json<T>()
  }
}

/** Parameters are SQL of JSON. */
function lineOf (uuids: string, events: string, properties: string): string {
  return `concat('[', ${uuids}, ',', toJSONString(lib), ',', toJSONString(lib_version), ',', ${events}, ',', ${properties}, ']')`
}
