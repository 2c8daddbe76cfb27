/** Days, weeks and months of a time zone, from the zones that come with the JavaScript engine. */
import { Temporal } from 'temporal-polyfill'
import { type AskedRange, type Interval, type Question, QUESTION_LIMITS } from './question.ts'
import { type HttpError, invalidField } from '../errors.ts'

const HOUR_MS = 3_600_000

/** A calendar day as `YYYY-MM-DD`. */
type Day = string

export interface Calendar {
  /** IANA name. */
  timezone: string
  weekStarts: 'monday' | 'sunday'
}

export interface Moment extends Calendar {
  /** Unix milliseconds. */
  now: number
  /** Events stored after this instant do not count; left out: all do. */
  storedUntil?: number
}

/** From one instant to before another, in Unix milliseconds, which are beginnings of days. */
export interface Span {
  from: number
  to: number
}

/** A range of a question at a moment. */
export interface ResolvedRange extends Span, Moment {
  firstDay: Day
  /** Included. */
  lastDay: Day
  /** The time before that it is compared with. */
  previous: Span
  /** Events before this instant were removed by retention; -Infinity: none was. */
  keptFrom: number
  /** Before this instant no event of the project was ever stored; left out: not known. */
  firstEvent?: number
  /** Read in place of the table of events. */
  source?: string
}

export function isDay (text: string): boolean {
  return /^20\d\d-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text)
}

function clockAt (instant: number, timezone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(timezone)
}

function dayAt (instant: number, timezone: string): Day {
  return clockAt(instant, timezone).toPlainDate().toString()
}

/** The first instant of a day: where clocks leap over midnight, that at which they land. */
export function startOfDay (day: Day, timezone: string): number {
  return Temporal.PlainDate.from(day).toZonedDateTime(timezone).epochMilliseconds
}

/** The first day of the period that a day lies in. */
export function periodOf (day: Day, interval: Interval, weekStarts: Calendar['weekStarts']): Day {
  if (interval === 'month') return `${day.slice(0, 8)}01`
  if (interval !== 'week') return day
  const { dayOfWeek } = Temporal.PlainDate.from(day)
  return addPeriods(day, weekStarts === 'sunday' ? -(dayOfWeek % 7) : 1 - dayOfWeek, 'day')
}

/** Adds periods; the 31st of a month becomes the last day of a shorter one. */
export function addPeriods (day: Day, count: number, interval: Exclude<Interval, 'hour'>): Day {
  return Temporal.PlainDate.from(day).add({ [`${interval}s`]: count }).toString()
}

/**
 * The range that a question is about, at a moment, by the calendar of its project. Where periods are compared
 * person by person, it begins with a whole one. `keptFrom` is a day of UTC.
 */
export function resolveRange (
  question: Question, { keptFrom = null, ...moment }: Moment & { keptFrom?: Day | null }
): ResolvedRange {
  const { range } = question
  const { timezone, now } = moment
  const weekStarts = question.weekStarts ?? moment.weekStarts
  const [first, lastDay] = daysOf(range, { timezone, weekStarts, now })
  const firstDay = question.kind === 'trend' || !('interval' in question) ? first : periodOf(first, question.interval, weekStarts)
  const [from, to] = [startOfDay(firstDay, timezone), startOfDay(addPeriods(lastDay, 1, 'day'), timezone)]
  const days = { timezone, weekStarts, now, firstDay, lastDay, from, to }
  const until = moment.storedUntil === undefined ? {} : { storedUntil: moment.storedUntil }
  const kept = keptFrom === null ? -Infinity : Date.parse(keptFrom)
  return { ...days, ...until, previous: spanBefore(range, days), keptFrom: kept }
}

/** Its first day and its last one, included. */
export function daysOf (range: AskedRange, { timezone, weekStarts, now }: Calendar & { now: number }): [Day, Day] {
  if ('from' in range) return [range.from, range.to]
  const { last, unit, whole } = range
  const present = periodOf(dayAt(now, timezone), unit, weekStarts)
  const end = whole ? present : addPeriods(present, 1, unit)
  return [addPeriods(end, -last, unit), addPeriods(end, -1, 'day')]
}

/** As long before; of a range that has not ended, as far as it has come by the clock of the zone. */
function spanBefore (
  range: AskedRange, { firstDay, lastDay, to, timezone, now }: Omit<ResolvedRange, 'previous' | 'keptFrom'>
): Span {
  const { days } = Temporal.PlainDate.from(firstDay).until(lastDay)
  const back = (day: Day): Day =>
    'from' in range ? addPeriods(day, -days - 1, 'day') : addPeriods(day, -range.last, range.unit)
  const from = startOfDay(back(firstDay), timezone)
  const end = startOfDay(firstDay, timezone)
  if (now >= to) return { from, to: end }
  const today = dayAt(now, timezone)
  if (today < firstDay) return { from, to: from }
  const then = back(today)
  const soFar = startOfDay(then, timezone) + now - startOfDay(today, timezone)
  return { from, to: Math.min(soFar, startOfDay(addPeriods(then, 1, 'day'), timezone), end) }
}

/** One point of an axis: its name, and the time that it is about. */
export interface Bucket extends Span {
  /** The first day of it; of an hour, its beginning in UTC as ISO 8601. */
  start: string
}

/**
 * The buckets of a span. An hour is one of real time: the day on which clocks go back has 25, two alike.
 *
 * @throws {HttpError} 400 when there are too many to draw.
 */
export function listBuckets (span: Span, interval: Interval, { timezone, weekStarts }: Calendar): Bucket[] {
  const buckets: Bucket[] = []
  const isHour = interval === 'hour'
  let at = isHour ? startOfHour(span.from, timezone) : span.from
  while (at < span.to) {
    const first = periodOf(dayAt(at, timezone), interval, weekStarts)
    const from = isHour ? at : startOfDay(first, timezone)
    const to = isHour ? startOfHour(at + HOUR_MS, timezone) : startOfDay(addPeriods(first, 1, interval), timezone)
    buckets.push({ start: isHour ? new Date(from).toISOString().replace('.000', '') : first, from, to })
    if (buckets.length > QUESTION_LIMITS.buckets) throw tooMany(interval, QUESTION_LIMITS.buckets)
    at = to
  }
  return buckets
}

/** @throws {HttpError} 400 when no bucket starts there. */
export function indexOfBucket (buckets: readonly Bucket[], start: string): number {
  const index = buckets.findIndex((bucket) => bucket.start === start)
  if (index === -1) throw invalidField('cell__start', `Expected the start of a period of the answer, such as ${buckets[0]?.start}.`)
  return index
}

/** A range with more of them than are drawn. */
export function tooMany (interval: Interval, most: number): HttpError {
  return invalidField('definition__interval', `The range has more than ${most} ${interval}s: ask for fewer days, or another interval.`)
}

/** Counted from the beginning of the day, as ClickHouse does where clocks change by half an hour. */
function startOfHour (instant: number, timezone: string): number {
  const day = startOfDay(dayAt(instant, timezone), timezone)
  return instant - (instant - day) % HOUR_MS
}
