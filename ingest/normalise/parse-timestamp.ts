/**
 * Reads a timestamp as people write it: RFC 3339 (also `+03`), date only, blank instead of T, slashes, without zone
 * (UTC), RFC 2822, unix seconds, milliseconds or microseconds.
 *
 * @returns epoch milliseconds, possibly with a fraction; null when it is not a timestamp.
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
  return Number.isNaN(time) ? null : time
}

const ISO = /^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?$/i
const RFC_2822 = /^(?:[a-z]{3},\s*)?\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}(?::\d{2})?(?: (?:[+-]\d{4}|GMT|UTC|Z|[ECMP][SD]T))?$/i
const UNIX_TIME = /^\d{9,17}(?:\.\d+)?$/

function parseAnyText (text: string): number | null {
  if (text.length > 64) return null
  const iso = ISO.exec(text)
  if (iso !== null) return fromParts(iso)
  if (UNIX_TIME.test(text)) return fromUnixTime(Number(text))
  if (RFC_2822.test(text)) {
    const hasZone = /(?:[+-]\d{4}|[A-Z]{1,3})$/i.test(text)
    const time = Date.parse(hasZone ? text : `${text} GMT`)
    return Number.isNaN(time) ? null : time
  }
  return null
}

function fromParts (parts: RegExpExecArray): number | null {
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = parts
  const date = Date.UTC(Number(year), Number(month) - 1, Number(day))
  const check = new Date(date)
  if (check.getUTCMonth() !== Number(month) - 1 || check.getUTCDate() !== Number(day)) return null
  // 60 is a leap second, 24:00 the end of a day.
  if (Number(hour) > 24 || Number(minute) > 59 || Number(second) > 60) return null
  const seconds = Number(hour) * 3600 + Number(minute) * 60 + Number(second)
  return date + seconds * 1000 + Number(`0.${fraction || '0'}`) * 1000 - zoneOffsetMs(zone)
}

function zoneOffsetMs (zone: string): number {
  const parts = /^([+-])(\d{1,2}):?(\d{2})?$/.exec(zone)
  if (parts === null) return 0
  const minutes = Number(parts[2]) * 60 + Number(parts[3] ?? 0)
  return (parts[1] === '-' ? -minutes : minutes) * 60_000
}

/** Seconds until the year 5138, milliseconds from 1973 on, microseconds from 1973 on: the magnitudes do not overlap. */
function fromUnixTime (value: number): number | null {
  if (!Number.isFinite(value) || value <= 0) return null
  if (value < 1e11) return value * 1000
  return value < 1e14 ? value : value / 1000
}
