/** The calendar of the oracle of questions: a day is what clocks of the zone show. */
import type { PlainQuestion, PlainWorld } from './plain-question.ts'

const HALF_HOUR = 1_800_000

/** Days around now in the oracle's calendar: two whole months and the two before them begin up to 154 days back. */
const [DAYS_BACK, DAYS_AHEAD] = [190, 40]

export type PlainCalendar = ReturnType<typeof createCalendar>

const formats = new Map<string, Intl.DateTimeFormat>()
const clocks = new Map<string, Map<number, Clock>>()
const labels = new Map<string, Map<number, string>>()

interface Clock { day: string, pastHour: number }

function clock (at: number, timezone: string): Clock {
  return once(clocks, timezone, at, () => readClock(at, timezone))
}

/** What was made for a key and an instant before, or is made now. */
function once<T> (known: Map<string, Map<number, T>>, key: string, at: number, make: () => T): T {
  let of = known.get(key)
  if (of === undefined) known.set(key, of = new Map())
  let found = of.get(at)
  if (found === undefined) of.set(at, found = make())
  return found
}

function readClock (at: number, timezone: string): Clock {
  if (!formats.has(timezone)) formats.set(timezone, new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, dateStyle: 'short', timeStyle: 'medium' }))
  const [day = '', time = ''] = formats.get(timezone)!.format(at).split(' ')
  const [, minutes = 0, seconds = 0] = time.split(':').map(Number)
  return { day, pastHour: minutes * 60_000 + seconds * 1000 + at % 1000 }
}

export function createCalendar (question: PlainQuestion, { timezone, now }: PlainWorld) {
  const { range, interval, week_starts: weekStarts, kind } = question
  const dayOf = (at: number): string => clock(at, timezone).day
  const label = (at: number, of: string): string =>
    once(labels, `${timezone} ${of} ${weekStarts}`, at, () => makeLabel(at, of))
  function makeLabel (at: number, of: string): string {
    const { day, pastHour } = clock(at, timezone)
    if (of === 'hour') return new Date(at - pastHour).toISOString().replace('.000', '')
    if (of === 'month') return day.slice(0, 7) + '-01'
    if (of === 'day') return day
    let date = new Date(day)
    while (date.getUTCDay() !== (weekStarts === 'monday' ? 1 : 0)) date = new Date(date.getTime() - 86_400_000)
    return date.toISOString().slice(0, 10)
  }
  // Every half hour from a good while before to after: no arithmetic with dates that could be wrong like the other one.
  const middle = Math.round(now / HALF_HOUR) * HALF_HOUR
  const count = (DAYS_BACK + DAYS_AHEAD) * 48
  const instants = Array.from({ length: count }, (_, index) => middle + (index - DAYS_BACK * 48) * HALF_HOUR)
  const unit = range.from === undefined ? range.unit! : 'day'
  const units = [...new Set(instants.map((at) => label(at, unit)))]
  const present = units.indexOf(label(now, unit))
  const last = range.from === undefined ? present - (range.whole === true ? 1 : 0) : units.indexOf(range.to!)
  const first = range.from === undefined ? last - range.last! + 1 : units.indexOf(range.from)
  const length = last - first + 1
  assertListed(units, first - length, last)
  const before = new Set(units.slice(first - length, first))
  let chosen = new Set(units.slice(first, last + 1))
  let labelOfUnit = (at: number): string => label(at, unit)
  if (!['trend', 'funnel', 'paths'].includes(kind)) {
    // From the beginning of the period of the first day.
    const days = [...new Set(instants.map(dayOf))]
    const begins = days.indexOf(label(instants.find((at) => chosen.has(labelOfUnit(at)))!, interval))
    const ends = days.indexOf(dayOf(instants.findLast((at) => chosen.has(labelOfUnit(at)))!))
    assertListed(days, begins, ends)
    chosen = new Set(days.slice(begins, ends + 1))
    labelOfUnit = dayOf
  }
  const isIn = (at: number): boolean => chosen.has(labelOfUnit(at))
  const hasEnded = !instants.some((at) => at > now - HALF_HOUR && isIn(at) && at + HALF_HOUR > now)
  /** The same time of day, a number of units earlier; in a shorter month at most its last day. */
  const today = dayOf(now)
  assertListed(units, present - length)
  const month = units[present - length]!.slice(0, 7)
  const daysBefore = new Date(Date.parse(today) - length * (unit === 'week' ? 7 : 1) * 86_400_000)
  const then = unit === 'month'
    ? instants.map(dayOf).findLast((day) => day.slice(0, 7) === month && day.slice(8) <= today.slice(8))!
    : daysBefore.toISOString().slice(0, 10)
  const startOf = (day: string): number => {
    const start = instants.findIndex((at) => dayOf(at) === day)
    assertListed(instants, start)
    return instants[start]!
  }
  let end: number | undefined
  const isBefore = (at: number): boolean => {
    if (!before.has(label(at, unit))) return false
    if (hasEnded) return true
    end ??= startOf(then) + now - startOf(dayOf(now))
    return at < end && dayOf(at) <= then
  }
  const labelsOf = (test: (at: number) => boolean): string[] =>
    [...new Set(instants.filter(test).map((at) => label(at, interval)))]
  const bucketOf = (at: number): string => label(at, interval)
  return { isIn, isBefore, labelsOf, bucketOf, present: bucketOf(now), dayOf }
}

/** A period at either end of the list may be cut off: an answer by it would be of another time than was asked for. */
function assertListed (list: readonly unknown[], ...indexes: number[]): void {
  const missing = indexes.find((index) => !(index > 0 && index < list.length - 1))
  if (missing !== undefined) throw new RangeError(`the plain calendar of ${list.length} periods does not reach period ${missing}`)
}
