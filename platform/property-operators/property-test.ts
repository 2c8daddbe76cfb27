import { isExactNumber, numberText } from '../../http-body/parse-json.ts'
import { stringifyJson } from '../../http-body/stringify-json.ts'

/** Tells whether a property value passes; `nowMs` is the time of the request in Unix milliseconds. */
export type ValueTest = (value: unknown, nowMs: number) => boolean

/** A compiled operator with its filter value. */
export interface PropertyTest {
  test: ValueTest
  /** Result when the property does not exist: true for negated operators, false for all others. */
  whenAbsent: boolean
}

/** Compiles the `value` of a filter into a test. */
export type CompileTest = (value: unknown, context: CompileTestContext) => PropertyTest

export interface CompileTestContext {
  /** IANA name of the project's time zone, in which dates without an offset are read. */
  timezone: string
  /**
   * Reports a filter value that is invalid for the operator. Throws on write; does nothing for a stored flag, whose
   * test then never passes (`NEVER`).
   */
  invalid: (message: string, code?: 'invalid' | 'invalid_regex') => void
}

/** A test that never passes, for invalid filter values. */
export const NEVER: PropertyTest = { test: () => false, whenAbsent: false }

/**
 * The text by which a property value is compared: a string itself, anything else its JSON with sorted names, so that
 * equal objects have equal texts.
 */
export function propertyText (value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || isExactNumber(value)) return numberText(value)
  if (typeof value === 'object' && value !== null) return stringifyJson(sortNames(value, 0))
  return String(value)
}

/** Lower-cases A to Z only, as the text operators do; `exact` uses the full Unicode mapping. */
export function lowerAscii (text: string): string {
  if (text === last) return lastLower
  lastLower = NOT_ASCII.test(text) ? text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()) : text.toLowerCase()
  last = text
  return lastLower
}

// Several flags and rules ask for the same text, one after the other.
let last = ''
let lastLower = ''

const NOT_ASCII = /[^\0-\x7f]/

/** Objects nested deeper keep their order of names: the JSON of a request must not exhaust the stack. */
const MAX_DEPTH = 20

function sortNames (value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || isExactNumber(value) || depth > MAX_DEPTH) return value
  if (Array.isArray(value)) return value.map((item) => sortNames(item, depth + 1))
  const entries = Object.entries(value).map(([name, item]) => [name, sortNames(item, depth + 1)] as const)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}
