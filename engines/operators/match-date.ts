import { Temporal } from 'temporal-polyfill'
import { isExactNumber } from '../body/parse-json.ts'
import { readNumber } from './match-number.ts'
import { type CompileTest, NEVER, rememberTexts } from './property-test.ts'

export const DATE_OPERATORS = {
  is_date_exact: compileDate((actual, expected) => actual === expected),
  is_date_before: compileDate((actual, expected) => actual < expected),
  is_date_after: compileDate((actual, expected) => actual > expected)
}

/** Unix times from this number on are in milliseconds, smaller ones in seconds (this one: the year 5138). */
const MILLISECONDS_FROM = 1e11

const isUnixTime = rememberTexts((text) => /^-?\d+(?:\.\d+)?$/.test(text))

function compileDate (compare: (actual: number, expected: number) => boolean): CompileTest {
  return (value, { timezone, invalid }) => {
    const expected = typeof value === 'string' ? compileExpected(value, timezone) : null
    if (expected === null) {
      invalid('The value must be a date like 2026-01-31, or a relative one like -7d.')
      return NEVER
    }
    // A value that is not a date is NaN, which compares false with everything.
    return {
      test: (actual, nowMs) => compare(readInstant(actual, timezone, nowMs), expected(nowMs)),
      whenAbsent: false
    }
  }
}

/** The instant that a date of a filter is, at the time of a request; null: it is no date. */
export function compileExpected (text: string, timezone: string): ((nowMs: number) => number) | null {
  const relative = compileRelativeDate(text, timezone)
  if (relative !== null) return relative
  const instant = parseDate(text, timezone)
  return Number.isNaN(instant) ? null : () => instant
}

/**
 * A date of a filter as SDKs read it, whatever zone they run in: an instant, or how long before the request. Null: they
 * count days and longer in UTC, the server on the clock of the time zone.
 */
export function spellDateForSdk (text: string, timezone: string): string | null {
  const relative = readRelative(text)
  if (relative !== null) return relative[1] === 'h' || parseTimezone(timezone) === 'UTC' ? text : null
  const instant = parseDate(text, timezone)
  return Number.isNaN(instant) ? null : new Date(instant).toISOString()
}

/** A property may hold a Unix time (number or string), a date, or a relative date. */
function readInstant (value: unknown, timezone: string, nowMs: number): number {
  if (typeof value === 'number' || isExactNumber(value)) return fromUnixTime(readNumber(value))
  if (typeof value !== 'string') return Number.NaN
  if (isUnixTime(value)) return fromUnixTime(readNumber(value))
  const instant = parseDate(value, timezone)
  return Number.isNaN(instant) ? compileRelativeDate(value, timezone)?.(nowMs) ?? Number.NaN : instant
}

function fromUnixTime (value: number): number {
  return Math.abs(value) >= MILLISECONDS_FROM ? value : value * 1000
}

/** Number and unit. */
const readRelative = rememberTexts((text): readonly [number, string] | null => {
  const [, digits, unit = ''] = /^-?(\d+)([hdwmy])$/.exec(text) ?? []
  return digits === undefined ? null : [Number(digits), unit]
})

/** SDKs read relative dates below this number only. */
const MAX_NUMBER = 10_000

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/**
 * Compiles a relative date (`-7d`, `3w`, `12m`, `1y`; h, d, w, m, y): that long before the request, with or without the
 * minus. Days and longer are counted on the wall clock of the project's time zone.
 *
 * @returns null when the text is not a relative date.
 */
function compileRelativeDate (text: string, timezone: string): ((nowMs: number) => number) | null {
  const [count, unit] = readRelative(text) ?? [MAX_NUMBER]
  if (count >= MAX_NUMBER) return null
  const onWallClock = (subtract: (wallMs: number) => number) =>
    (nowMs: number) => fromWallClock(subtract(toWallClock(nowMs, timezone)), timezone)
  switch (unit) {
    case 'h': return (nowMs) => nowMs - count * HOUR_MS
    case 'd': return onWallClock((wallMs) => wallMs - count * DAY_MS)
    case 'w': return onWallClock((wallMs) => wallMs - count * 7 * DAY_MS)
    case 'm': return onWallClock((wallMs) => subtractMonths(wallMs, count))
    default: return onWallClock((wallMs) => subtractYears(wallMs, count))
  }
}

/** Goes back month by month, as SDKs do: two months before 31 March is 28 January in most years, not the 31st. */
function subtractMonths (wallMs: number, months: number): number {
  const date = new Date(wallMs)
  let day = date.getUTCDate()
  const year = date.getUTCFullYear()
  const month = date.getUTCMonth()
  for (let step = 1; step <= months && day > 28; step++) {
    day = Math.min(day, new Date(Date.UTC(year, month - step + 1, 0)).getUTCDate())
  }
  return date.setUTCFullYear(year, month - months, day)
}

function subtractYears (wallMs: number, years: number): number {
  const date = new Date(wallMs)
  const leapDay = date.getUTCMonth() === 1 && date.getUTCDate() === 29
  return date.setUTCFullYear(date.getUTCFullYear() - years, date.getUTCMonth(),
    leapDay && years > 0 ? 28 : date.getUTCDate())
}

/** ISO 8601, loosely: also with slashes, one-digit months and a blank for the T. */
const DATE_TEXT =
  /^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?$/i

const RFC_2822 = /^(?:[A-Z][a-z]{2}, )?((\d{1,2}) [A-Z][a-z]{2} \d{4}) \d{2}:\d{2}(?::\d{2})? (?:GMT|UTC|[+-]\d{4})$/

/**
 * Reads a date as an instant.
 *
 * @param timezone  IANA name of the time zone of a date without an offset.
 * @returns Unix milliseconds; NaN when the text is not a date.
 */
function parseDate (text: string, timezone: string): number {
  const date = readDate(text)
  if (date === null) return parseRfc2822(text)
  const { wall, milliseconds, offset } = date
  return offset === null ? fromWallClock(wall, timezone) + milliseconds : wall + milliseconds - offset
}

/** What a text of `DATE_TEXT` says; the offset in milliseconds. A date that does not exist is NaN. */
const readDate = rememberTexts((text): { wall: number, milliseconds: number, offset: number | null } | null => {
  const match = DATE_TEXT.exec(text)
  if (match === null) return null
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '.', offset] = match
  // Date.UTC takes the years 0 to 99 for 1900 to 1999.
  const date = new Date(new Date(0).setUTCFullYear(Number(year), Number(month) - 1, Number(day)))
  const wall = date.setUTCHours(Number(hour), Number(minute), Number(second))
  // Values out of range are normalized: 30 February would be March.
  const exists = date.getUTCMonth() === Number(month) - 1 && date.getUTCHours() === Number(hour) &&
    Number(minute) < 60 && Number(second) < 60
  if (!exists) return { wall: Number.NaN, milliseconds: 0, offset: 0 }
  const milliseconds = Number(fraction.slice(1, 4).padEnd(3, '0'))
  return { wall, milliseconds, offset: offset === undefined ? null : parseOffset(offset) }
})

function parseRfc2822 (text: string): number {
  const match = RFC_2822.exec(text)
  // As above: 30 February must not become March.
  const [, date, day] = match ?? []
  return match !== null && new Date(`${date} UTC`).getUTCDate() === Number(day) ? Date.parse(text) : Number.NaN
}

/** The IANA name of a time zone; null if it does not exist. */
export function parseTimezone (text: string): string | null {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone
  } catch {
    return null
  }
}

/**
 * The instant at which clocks in the time zone show the time that `wallMs` is in UTC: the first of two when clocks are
 * set back; when clocks skip it, the instant as far after the gap.
 */
export function fromWallClock (wallMs: number, timezone: string): number {
  if (timezone === 'UTC') return wallMs
  const wall = Temporal.Instant.fromEpochMilliseconds(wallMs).toZonedDateTimeISO('UTC').toPlainDateTime()
  return wall.toZonedDateTime(timezone).epochMilliseconds
}

/**
 * How far clocks in the time zone are ahead of UTC, for SQL that does what `fromWallClock` does: each offset with the
 * first time on these clocks, as if it were UTC, that is read by it. Until 2100.
 */
export function listOffsets (timezone: string): { from: number, offset: number }[] {
  let at: Temporal.ZonedDateTime | null = Temporal.Instant.from('1900-01-01T00:00Z').toZonedDateTimeISO(timezone)
  const offsets = [{ from: Number.MIN_SAFE_INTEGER, offset: at.offsetNanoseconds / 1e6 }]
  for (at = at.getTimeZoneTransition('next'); at !== null && at.year < 2100; at = at.getTimeZoneTransition('next')) {
    const [before, offset] = [offsets.at(-1)?.offset ?? 0, at.offsetNanoseconds / 1e6]
    offsets.push({ from: at.epochMilliseconds + Math.max(before, offset), offset })
  }
  return offsets
}

/** The time that clocks in the time zone show at an instant, as if it were UTC. */
function toWallClock (instantMs: number, timezone: string): number {
  if (timezone === 'UTC') return instantMs
  const local = Temporal.Instant.fromEpochMilliseconds(instantMs).toZonedDateTimeISO(timezone).toPlainDateTime()
  return local.toZonedDateTime('UTC').epochMilliseconds
}

/** `Z`, `+03`, `-0330` or `+03:30` in milliseconds. */
function parseOffset (text: string): number {
  if (text === 'Z' || text === 'z') return 0
  const sign = text.startsWith('-') ? -1 : 1
  const digits = text.slice(1).replace(':', '')
  return sign * (Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2) || '0')) * 60_000
}
