import { isExactNumber } from '../../../platform/http-body/exact-number.ts'
import { parseDate } from './parse-date.ts'
import { NEVER, type CompileTest } from './property-test.ts'
import { compileRelativeDate } from './relative-date.ts'

export const compileDateExact = compileDate((actual, expected) => actual === expected)
export const compileDateBefore = compileDate((actual, expected) => actual < expected)
export const compileDateAfter = compileDate((actual, expected) => actual > expected)

/** Numbers from here on are milliseconds, smaller ones seconds; as seconds it would be the year 5138. */
const MILLISECONDS_FROM = 1e11

const NUMBER_TEXT = /^-?\d+(?:\.\d+)?$/

function compileDate (compare: (actual: number, expected: number) => boolean): CompileTest {
  return (value, { timezone, invalid }) => {
    const expected = typeof value === 'string' ? compileExpected(value, timezone) : null
    if (expected === null) {
      invalid('The value must be a date like 2026-01-31, or a relative one like -7d.')
      return NEVER
    }
    // NaN, for what is no date, compares false with everything.
    return {
      test: (actual, nowMs) => compare(readInstant(actual, timezone, nowMs), expected(nowMs)),
      whenAbsent: false
    }
  }
}

function compileExpected (text: string, timezone: string): ((nowMs: number) => number) | null {
  const relative = compileRelativeDate(text, timezone)
  if (relative !== null) return relative
  const instant = parseDate(text, timezone)
  return Number.isNaN(instant) ? null : () => instant
}

/** A property may hold a Unix time (number or text), a date text, or a relative date. */
function readInstant (value: unknown, timezone: string, nowMs: number): number {
  if (typeof value === 'number') return fromUnixTime(value)
  if (isExactNumber(value)) return fromUnixTime(Number(value.rawJSON))
  if (typeof value !== 'string') return Number.NaN
  if (NUMBER_TEXT.test(value)) return fromUnixTime(Number(value))
  const instant = parseDate(value, timezone)
  return Number.isNaN(instant) ? compileRelativeDate(value, timezone)?.(nowMs) ?? Number.NaN : instant
}

function fromUnixTime (value: number): number {
  return Math.abs(value) >= MILLISECONDS_FROM ? value : value * 1000
}
