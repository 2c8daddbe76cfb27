/** Wall-clock parts of a date text; the offset is absent when the text names none. */
const DATE_TEXT =
  /^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?$/i

const RFC_2822 = /^(?:[A-Z][a-z]{2}, )?((\d{1,2}) [A-Z][a-z]{2} \d{4}) \d{2}:\d{2}(?::\d{2})? (?:GMT|UTC|[+-]\d{4})$/

/**
 * Reads a date text as an instant.
 *
 * @param timezone  Where a text without an offset is meant.
 * @returns Unix milliseconds, or NaN when it is no date.
 */
export function parseDate (text: string, timezone: string): number {
  const match = DATE_TEXT.exec(text)
  if (match === null) return parseRfc2822(text)

  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '0', offset] = match
  const wall = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second))
  const date = new Date(wall)
  // Date.UTC carries over what is out of range: 30 February would be March.
  const exists = date.getUTCMonth() === Number(month) - 1 && date.getUTCHours() === Number(hour) &&
    Number(minute) < 60 && Number(second) < 60
  if (!exists) return Number.NaN
  const milliseconds = Math.floor(Number(fraction) * 1000)
  if (offset === undefined) return fromWallClock(wall, timezone) + milliseconds
  return wall + milliseconds - parseOffset(offset)
}

function parseRfc2822 (text: string): number {
  const match = RFC_2822.exec(text)
  // As above: the day must be one of its month.
  const [, date, day] = match ?? []
  return match !== null && new Date(`${date} UTC`).getUTCDate() === Number(day) ? Date.parse(text) : Number.NaN
}

/**
 * The instant at which clocks in the time zone show what the given number shows in UTC. Of two such instants (clocks
 * set back) the first; if there is none (clocks set forward) the one as far after the gap.
 */
export function fromWallClock (wallMs: number, timezone: string): number {
  if (timezone === 'UTC') return wallMs
  const wall = Temporal.Instant.fromEpochMilliseconds(wallMs).toZonedDateTimeISO('UTC').toPlainDateTime()
  return wall.toZonedDateTime(timezone).epochMilliseconds
}

/** What clocks in the time zone show at an instant, as if it were UTC. */
export function toWallClock (instantMs: number, timezone: string): number {
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
