/** Days, weeks and months of a time zone, from the zones that come with the JavaScript engine. */
import { type AskedRange, type Interval, type Question, QUESTION_LIMITS } from './question.ts'
import { type HttpError, invalidField } from '../errors.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

/** A calendar day as `YYYY-MM-DD`. */
type Day = string

export interface Calendar {
  /** IANA name. */
  timezone: string
  weekStarts: 'monday' | 'sunday'
}

/** From one instant to before another, in Unix milliseconds, which are beginnings of days. */
export interface Span {
  from: number
  to: number
}

/** A range of a question at a moment. */
export interface ResolvedRange extends Span, Calendar {
  now: number
  firstDay: Day
  /** Included. */
  lastDay: Day
  /** The time before that it is compared with. */
  previous: Span
}

export function isDay (text: string): boolean {
  return /^20\d\d-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text)
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** What clocks of the zone show at an instant, as if it were UTC, in milliseconds. */
export function wallClock (instant: number, timezone: string): number {
  let format = formats.get(timezone)
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: timezone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric'
    })
    formats.set(timezone, format)
  }
  const parts = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts
  return Date.UTC(year, month - 1, day, hour, minute, second) + (instant % 1000 + 1000) % 1000
}

function dayAt (instant: number, timezone: string): Day {
  return toDay(wallClock(instant, timezone))
}

function toDay (ms: number): Day {
  return new Date(ms).toISOString().slice(0, 10)
}

/** The first instant of a day: where clocks leap over midnight, that at which they land. */
export function startOfDay (day: Day, timezone: string): number {
  let [before, after] = [Date.parse(day) - DAY_MS, Date.parse(day) + DAY_MS]
  while (after - before > 1000) {
    const middle = Math.floor((before + after) / 2000) * 1000
    if (dayAt(middle, timezone) >= day) after = middle
    else before = middle
  }
  return after
}

/** The first day of the period that a day lies in. */
export function periodOf (day: Day, interval: Interval, weekStarts: Calendar['weekStarts']): Day {
  if (interval === 'month') return `${day.slice(0, 8)}01`
  if (interval !== 'week') return day
  const weekday = new Date(day).getUTCDay()
  return addDays(day, weekStarts === 'sunday' ? -weekday : -((weekday + 6) % 7))
}

export function addDays (day: Day, days: number): Day {
  return toDay(Date.parse(day) + days * DAY_MS)
}

/** So many periods later; the 31st of a month becomes the last day of a shorter one. */
export function addPeriods (day: Day, count: number, interval: Interval): Day {
  if (interval !== 'month') return addDays(day, interval === 'week' ? count * 7 : count)
  const [year = 0, month = 1, date = 1] = day.split('-').map(Number)
  const last = new Date(Date.UTC(year, month + count, 0)).getUTCDate()
  return toDay(Date.UTC(year, month - 1 + count, Math.min(date, last)))
}

/**
 * The range that a question is about, at a moment, by the calendar of its project. A retention begins with a whole
 * period.
 */
export function resolveRange (question: Question, { now, ...calendar }: Calendar & { now: number }): ResolvedRange {
  const { range } = question
  const { timezone } = calendar
  const weekStarts = question.weekStarts ?? calendar.weekStarts
  const [first, lastDay] = daysOf(range, { timezone, weekStarts, now })
  const firstDay = question.kind === 'retention' ? periodOf(first, question.interval, weekStarts) : first
  const [from, to] = [startOfDay(firstDay, timezone), startOfDay(addDays(lastDay, 1), timezone)]
  const days = { timezone, weekStarts, now, firstDay, lastDay, from, to }
  return { ...days, previous: spanBefore(range, days) }
}

function daysOf (range: AskedRange, { timezone, weekStarts, now }: Calendar & { now: number }): [Day, Day] {
  if ('from' in range) return [range.from, range.to]
  const { last, unit, whole } = range
  const present = periodOf(dayAt(now, timezone), unit, weekStarts)
  const end = whole ? present : addPeriods(present, 1, unit)
  return [addPeriods(end, -last, unit), addDays(end, -1)]
}

/** As long before; of a range that has not ended, as far as it has come by the clock of the zone. */
function spanBefore (
  range: AskedRange, { firstDay, lastDay, to, timezone, now }: Omit<ResolvedRange, 'previous'>
): Span {
  const days = Math.round((Date.parse(lastDay) - Date.parse(firstDay)) / DAY_MS) + 1
  const back = (day: Day): Day => 'from' in range ? addDays(day, -days) : addPeriods(day, -range.last, range.unit)
  const from = startOfDay(back(firstDay), timezone)
  const end = startOfDay(firstDay, timezone)
  if (now >= to) return { from, to: end }
  const today = dayAt(now, timezone)
  if (today < firstDay) return { from, to: from }
  const then = back(today)
  const soFar = startOfDay(then, timezone) + now - startOfDay(today, timezone)
  return { from, to: Math.min(soFar, startOfDay(addDays(then, 1), timezone), end) }
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
    buckets.push({ start: isHour ? hourText(from) : first, from, to })
    if (buckets.length > QUESTION_LIMITS.buckets) throw tooMany(interval, QUESTION_LIMITS.buckets)
    at = to
  }
  return buckets
}

/** A range with more of them than are drawn. */
export function tooMany (interval: Interval, most: number): HttpError {
  return invalidField('definition__interval', `The range has more than ${most} ${interval}s: ask for fewer days, or another interval.`)
}

function startOfHour (instant: number, timezone: string): number {
  return instant - wallClock(instant, timezone) % HOUR_MS
}

function hourText (instant: number): string {
  return new Date(instant).toISOString().slice(0, 19) + 'Z'
}
