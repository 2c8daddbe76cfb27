import { isExactNumber } from '../body/parse-json.ts'
import { type CompileTest, NEVER, rememberTexts } from './property-test.ts'

export const NUMBER_OPERATORS = {
  gt: compileComparison((actual, bound) => actual > bound),
  gte: compileComparison((actual, bound) => actual >= bound),
  lt: compileComparison((actual, bound) => actual < bound),
  lte: compileComparison((actual, bound) => actual <= bound),
  // Within a pair of inclusive bounds, and outside of them. A value that is not a number passes neither.
  between: compileRange(false),
  not_between: compileRange(true)
}

/** Compares numbers and strings that are a number; anything else never passes. */
function compileComparison (compare: (actual: number, bound: number) => boolean): CompileTest {
  return (value, { invalid }) => {
    const bound = readNumber(value)
    if (Number.isNaN(bound)) {
      invalid('The value must be a number.')
      return NEVER
    }
    // NaN compares false with everything.
    return { test: (actual) => compare(readNumber(actual), bound), whenAbsent: false }
  }
}

function compileRange (negated: boolean): CompileTest {
  return (value, { invalid }) => {
    const bounds = Array.isArray(value) && value.length === 2 ? value.map(readNumber) : []
    const [low = Number.NaN, high = Number.NaN] = bounds
    if (!(low <= high)) {
      invalid('The value must be a pair of numbers, the smaller one first.')
      return NEVER
    }
    const test = (actual: unknown): boolean => {
      const number = readNumber(actual)
      return !Number.isNaN(number) && (number >= low && number <= high) !== negated
    }
    return { test, whenAbsent: negated }
  }
}

/** Digits can belong to one part only: where two may share them, every split is tried: the square of their number. */
const NUMBER_TEXT = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/

const readText = rememberTexts((text) => NUMBER_TEXT.test(text) ? asFinite(Number(text)) : Number.NaN)

/** What no double holds, such as `1e400`, is not a number. */
function asFinite (number: number): number {
  return Number.isFinite(number) ? number : Number.NaN
}

/** The value of a number or of a string that is a number; NaN for anything else. */
export function readNumber (value: unknown): number {
  if (typeof value === 'number') return asFinite(value)
  if (isExactNumber(value)) return readText(value.rawJSON)
  return typeof value === 'string' ? readText(value) : Number.NaN
}
