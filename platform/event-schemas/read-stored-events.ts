/** Reads stored events of a name for a check, in rounds of some hours. */
import type { ClickHouseSettings } from '@clickhouse/client'
import { clickHouseCodeOf } from '../clickhouse/clickhouse-errors.ts'
import type { ClickHouse } from '../clickhouse/connect-clickhouse.ts'
import type { CheckQuery } from './check-stored-events.ts'
import { MAX_SAMPLES } from './prediction.ts'
import type { StoredValues } from './stored-values.ts'

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

/** `TOO_MANY_ROWS`, `TIMEOUT_EXCEEDED`, `MEMORY_LIMIT_EXCEEDED`. */
const GIVEN_UP_CODES = [158, 159, 241]

/** What is computed for some rows only is computed for copies of these, which takes longer than for all rows. */
const VALUE_SETTINGS: ClickHouseSettings = { short_circuit_function_evaluation: 'disable' }

const FROM = `FROM events
  WHERE project_id = {project: UInt32} AND event = {event: String}
    AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`

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

  return { readRounds, readShapes, readClasses, readEvents, readSampled }

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
    return readGroups(round, { name: 'property_types', key: 'property_types', properties: `if(${isDecided}, ${ofShape}, 'null')`, condition: '' })
  }

  /** Counts events by the values that are asked for. */
  function readClasses (round: Round, values: string, condition: string): AsyncGenerator<Line[]> {
    return readGroups(round, { name: 'class', key: values, properties: 'class', condition })
  }

  /** @param group.key  What the events of a group have in common; `properties` are made of it, by its name. */
  function readGroups (
    round: Round, { name, key, properties, condition }: Record<'name' | 'key' | 'properties' | 'condition', string>
  ): AsyncGenerator<Line[]> {
    return readLines(round, `
      SELECT ${lineOf('toJSONString(uuids)', 'toString(events)', properties)}
      FROM (
        SELECT lib, lib_version, ${key} AS ${name}, count() AS events, groupArray(${MAX_SAMPLES})(toString(uuid)) AS uuids
        ${FROM} ${condition} GROUP BY lib, lib_version, ${name})`, GROUP_SETTINGS)
  }

  /** Each event by itself. */
  function readEvents (round: Round, values: string, condition: string): AsyncGenerator<Line[]> {
    return readLines(round, `
      SELECT ${lineOf("concat('[\"', toString(uuid), '\"]')", "'1'", values)} ${FROM} ${condition}
      ${round.limit === undefined ? '' : `LIMIT ${round.limit}`}`, { wait_end_of_query: 0 })
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
