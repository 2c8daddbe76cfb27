import { isExactNumber, numberText } from '../../platform/http-body/parse-json.ts'
import { stringifyJson } from '../../platform/http-body/stringify-json.ts'

/** Tells whether a property value passes; `nowMs` (Unix, milliseconds) is the time of the request. */
export type ValueTest = (value: unknown, nowMs: number) => boolean

/** One operator with its filter value, compiled. */
export interface PropertyTest {
  test: ValueTest
  /** The answer when the property does not exist: negated operators are true then, all others false. */
  whenAbsent: boolean
}

/** Turns the `value` of a filter into a test; `invalid` reports what is wrong with the value. */
export type CompileTest = (value: unknown, context: CompileTestContext) => PropertyTest

export interface CompileTestContext {
  /** IANA name of the project's time zone; dates without an offset are read in it. */
  timezone: string
  /**
   * Called with a sentence when the filter value makes no sense for the operator. On write it throws; for a stored
   * flag it does nothing, because the test compiled then is one that never passes.
   */
  invalid: (message: string, code?: 'invalid' | 'invalid_regex') => void
}

/** A test that never passes, for filter values that make no sense. */
export const NEVER: PropertyTest = { test: () => false, whenAbsent: false }

/**
 * The text by which a property value is compared: strings as they are, everything else as JSON, with the names of
 * objects in order so that equal objects have equal texts.
 */
export function propertyText (value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || isExactNumber(value)) return numberText(value)
  if (typeof value === 'object' && value !== null) return stringifyJson(sortNames(value, 0))
  return String(value)
}

/** Lower-cases A to Z only, as the text operators do; `exact` uses the full Unicode mapping. */
export function lowerAscii (text: string): string {
  return ASCII_ONLY.test(text) ? text.toLowerCase() : text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

const ASCII_ONLY = /^\p{ASCII}*$/u

/** Deeper objects keep their order: nobody compares them, and the depth of a request's JSON must not end the stack. */
const MAX_DEPTH = 20

function sortNames (value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || isExactNumber(value) || depth > MAX_DEPTH) return value
  if (Array.isArray(value)) return value.map((item) => sortNames(item, depth + 1))
  const entries = Object.entries(value).map(([name, item]) => [name, sortNames(item, depth + 1)] as const)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}
