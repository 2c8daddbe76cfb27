import { fromWallClock, toWallClock } from './parse-date.ts'

const RELATIVE = /^-?(\d+)([hdwmy])$/

/** Larger numbers are not dates of anybody; the bound is the protocol's. */
const MAX_NUMBER = 10_000

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/**
 * Compiles `-7d`, `3w`, `12m`, `1y`: that long before the time of the request, with or without the minus.
 *
 * Days, weeks, months and years are counted on the wall clock of the project's time zone; the day of the month is
 * kept where the month has it.
 *
 * @returns null when the text is not a relative date.
 */
export function compileRelativeDate (text: string, timezone: string): ((nowMs: number) => number) | null {
  const match = RELATIVE.exec(text)
  if (match === null || Number(match[1]) >= MAX_NUMBER) return null
  const count = Number(match[1])
  const onWallClock = (subtract: (wallMs: number) => number) =>
    (nowMs: number) => fromWallClock(subtract(toWallClock(nowMs, timezone)), timezone)
  switch (match[2]) {
    case 'h': return (nowMs) => nowMs - count * HOUR_MS
    case 'd': return onWallClock((wallMs) => wallMs - count * DAY_MS)
    case 'w': return onWallClock((wallMs) => wallMs - count * 7 * DAY_MS)
    case 'm': return onWallClock((wallMs) => subtractMonths(wallMs, count))
    default: return onWallClock((wallMs) => subtractYears(wallMs, count))
  }
}

/** Month by month, as the protocol does: from 31 March two months back is 28 January in most years, not the 31st. */
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
