/** Days of stored events, newest first, in spans that are worth a query each. */
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { isTimeout } from '../http/describe-clickhouse-error.ts'
import { decodeCursor, encodeCursor, invalidCursor } from '../http/list-queries.ts'
import { parseIsoDateTime, UUID } from '../http/request-values.ts'

/** Longest search for one page, in milliseconds. */
export const BUDGET_MS = 10_000

/** How much larger each span is than the one before. */
const GROWTH = 8

const DAY_MS = 86_400_000

/** Last time of which ClickHouse's `Date` has the day. */
const LAST_TIME = Date.UTC(2149, 5, 6)

/** A property of `properties` by its name, and by its value: a text as it is, anything else as JSON. */
export const PROPERTY_CONDITIONS = {
  property: 'JSONHas(properties, {property: String})',
  value: `if(JSONType(properties, {property: String}) = 'String',
    JSONExtractString(properties, {property: String}), JSONExtractRaw(properties, {property: String})) = {value: String}`
}

/** Those of the conditions whose parameter is given. */
export function conditionsOf (conditions: Readonly<Record<string, string>>, params: object): string {
  return Object.entries(conditions).map(([name, each]) => name in params ? `AND ${each}` : '').join(' ')
}

interface Day { day: number, volume: number }

interface DaysQuery { project: number, event?: string | undefined, from?: number | undefined, to?: number | undefined }

/** How many events each day has, newest first: about, as events that were deleted since are still counted. */
export async function readDays (
  clickhouse: ClickHouse, { project, event, from = 0, to = LAST_TIME }: DaysQuery
): Promise<Day[]> {
  return await queryRows<Day>(clickhouse, `
    SELECT toUInt32(day) * ${DAY_MS} AS day, toFloat64(sum(days.volume)) AS volume FROM event_volumes_by_day AS days
    WHERE project_id = {project: UInt32} ${event === undefined ? '' : 'AND event = {event: String}'}
      AND days.day BETWEEN {from: Date} AND {to: Date}
    GROUP BY days.day ORDER BY days.day DESC SETTINGS max_execution_time = 5, output_format_json_quote_64bit_integers = 0`,
  { project, ...event !== undefined && { event }, from: dayOf(from), to: dayOf(to) })
}

export function dayOf (epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 10)
}

interface Search {
  days: readonly Day[]
  /** Events of the first span. */
  wanted: number
  startedAt: number
}

/**
 * Reads span after span, until one says that it is enough, everything was read, or the time is over.
 *
 * @param read  Reads a span within some seconds; without `from` it goes to the oldest event.
 * @returns since when everything was read, when the time was over; else undefined.
 * @throws what reading throws, and a timeout of the first span.
 */
export async function readSpans (
  { days, wanted, startedAt }: Search, read: (from: number | undefined, seconds: number) => Promise<boolean>
): Promise<number | undefined> {
  let searchedFrom: number | undefined
  for (let [events, next] = [wanted, 0]; ; events *= GROWTH) {
    const span = cutSpan(days, next, events)
    try {
      const isEnough = await read(span.from, Math.max(0.1, (BUDGET_MS - performance.now() + startedAt) / 1000))
      if (isEnough || span.from === undefined) return undefined
    } catch (error) {
      if (searchedFrom === undefined || !isTimeout(error)) throw error
      return searchedFrom
    }
    searchedFrom = span.from
    next = span.next
  }
}

/** The next days with as many events. Without `from`, it goes to the oldest event, whatever the days say. */
export function cutSpan (days: readonly Day[], next: number, wanted: number): { from?: number, next: number } {
  let events = 0
  for (let index = next; index < days.length - 1; index++) {
    const { day, volume } = days[index] ?? { day: 0, volume: 0 }
    events += volume
    if (events >= wanted) return { from: day, next: index + 1 }
  }
  return { next: days.length }
}

/** The time of a parameter, within what ClickHouse has days for. */
export function readTime (text: string | undefined): number | undefined {
  const time = parseIsoDateTime(text)?.getTime()
  return time === undefined ? undefined : limitTime(time)
}

export function limitTime (epochMs: number): number {
  return Math.min(Math.max(epochMs, 0), LAST_TIME)
}

/** A place in an order by time and uuid, the latest first. */
export interface Position { at: number, uuid: string }

/** Before every event of its moment. */
export const FIRST_UUID = '00000000-0000-0000-0000-000000000000'

export function toCursor (order: string, { at, uuid }: Position): string {
  return encodeCursor(order, [String(at), uuid])
}

/** @throws {HttpError} 400 for what `toCursor` did not make for this order. */
export function readCursor (order: string, after: string | undefined): Position | undefined {
  const [at, uuid = ''] = decodeCursor(after, order, ['integer', 'text']) ?? []
  if (at === undefined) return undefined
  if (!UUID.test(uuid)) throw invalidCursor()
  return { at: limitTime(Number(at)), uuid }
}
