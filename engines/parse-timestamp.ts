/** 2000-01-01: older times come from clocks that were never set. ClickHouse would make a partition for each month. */
export const EARLIEST_MS = 946_684_800_000

/** Later events have a wrong clock (docs/reference/contract/sdks.md 1.8: 23 h, because time zones reach 14 h). */
export const MAX_FUTURE_MS = 23 * 3_600_000

/**
 * Reads a timestamp in the usual notations: RFC 3339 (also `+03`), date only, a space instead of T, slashes, without
 * zone (UTC), RFC 2822, unix seconds, milliseconds or microseconds. 24:00 is the beginning of the next day, and so is a
 * leap second, 23:59:60 in UTC; any other time that no calendar or clock shows is no timestamp. Of a fraction in digits
 * of a second the milliseconds count.
 *
 * @returns epoch milliseconds, of unix times possibly with a fraction; null when it is not a timestamp.
 */
export function parseTimestamp (value: unknown): number | null {
  if (typeof value === 'number') return fromUnixTime(value)
  if (typeof value !== 'string') return null
  return parseIsoUtc(value) ?? parseAnyText(value.trim())
}

/** What every SDK sends: `2026-11-21T10:00:00.000Z`, the fraction of one to three digits optional. */
function parseIsoUtc (text: string): number | null {
  const end = text.length - 1
  if (end < 19 || end > 23 || text.charCodeAt(end) !== 0x5a || text.charCodeAt(10) !== 0x54) return null
  // Built in and exact for this form; the general road below costs ten times as much.
  const time = Date.parse(text)
  if (Number.isNaN(time)) return null
  // But it takes 30 February for 2 March; only days that every month has need no second look.
  const day = (text.charCodeAt(8) - 0x30) * 10 + text.charCodeAt(9) - 0x30
  return day <= 28 || new Date(time).getUTCDate() === day ? time : null
}

const ISO = /^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?$/i
const RFC_2822 = /^(?:[a-z]{3},\s*)?(\d{1,2}) ([a-z]{3}) (\d{4}) (\d{2}):(\d{2})(?::(\d{2}))?(?: ([+-]\d{4}|GMT|UTC|Z|[ECMP][SD]T))?$/i
const UNIX_TIME = /^\d{9,17}(?:\.\d+)?$/

const MONTHS = 'janfebmaraprmayjunjulaugsepoctnovdec'

function parseAnyText (text: string): number | null {
  if (text.length > 64) return null
  const iso = ISO.exec(text)
  if (iso !== null) {
    const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = iso
    const date: Three = [Number(year), Number(month), Number(day)]
    const time = fromParts(date, [Number(hour), Number(minute), Number(second)], zone)
    // As a part of a second it would be rounded up behind the seventh 9, into another day at worst.
    return time === null ? null : time + Number(fraction.slice(0, 3).padEnd(3, '0'))
  }
  if (UNIX_TIME.test(text)) return fromUnixTime(Number(text))
  const rfc = RFC_2822.exec(text)
  if (rfc === null) return null
  const [, day, name = '', year, hour, minute, second = '0', zone = 'Z'] = rfc
  const month = MONTHS.indexOf(name.toLowerCase()) / 3 + 1
  return fromParts([Number(year), month, Number(day)], [Number(hour), Number(minute), Number(second)], zone)
}

type Three = readonly [number, number, number]

const DAY_MS = 86_400_000

function fromParts ([year, month, day]: Three, [hour, minute, second]: Three, zone: string): number | null {
  const date = Date.UTC(year, month - 1, day)
  const check = new Date(date)
  if (check.getUTCMonth() !== month - 1 || check.getUTCDate() !== day) return null
  const isOnClock = hour <= 23 && minute <= 59 && second <= 59
  const isEndOfDay = hour === 24 && minute === 0 && second === 0
  const offsetMs = zoneOffsetMs(zone)
  if (offsetMs === null) return null
  const time = date + ((hour * 60 + minute) * 60 + second) * 1000 - offsetMs
  // Leap seconds are put in at the end of a day of UTC.
  const isLeapSecond = hour <= 23 && minute <= 59 && second === 60 && time % DAY_MS === 0
  return isOnClock || isEndOfDay || isLeapSecond ? time : null
}

/** Zones that RFC 2822 names, in hours; the others of its zones are UTC. */
const ZONES: Record<string, number> = { EST: -5, EDT: -4, CST: -6, CDT: -5, MST: -7, MDT: -6, PST: -8, PDT: -7 }

function zoneOffsetMs (zone: string): number | null {
  const parts = /^([+-])(\d{1,2}):?(\d{2})?$/.exec(zone)
  if (parts === null) return (ZONES[zone.toUpperCase()] ?? 0) * 3_600_000
  const hours = Number(parts[2])
  const minutes = Number(parts[3] ?? 0)
  if (hours > 23 || minutes > 59) return null
  return (parts[1] === '-' ? -1 : 1) * (hours * 60 + minutes) * 60_000
}

/** Seconds until the year 5138, milliseconds from 1973 on, microseconds from 1973 on: the magnitudes do not overlap. */
function fromUnixTime (value: number): number | null {
  if (!Number.isFinite(value) || value <= 0) return null
  if (value < 1e11) return value * 1000
  return value < 1e14 ? value : value / 1000
}
