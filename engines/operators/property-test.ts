import { isExactNumber, numberText } from '../body/parse-json.ts'
import { stringifyJson } from '../body/stringify-json.ts'

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
  if (typeof value !== 'object' || value === null) return String(value)
  let text = texts.get(value)
  if (text === undefined) texts.set(value, text = stringifyJson(sortNames(value, 0)))
  return text
}

/**
 * The texts of objects and lists, made once for all conditions that ask: the client of a request for flags chooses how
 * large a value is (0.5 s for 4 MB). Nobody changes a value that was parsed; an edit is a copy.
 */
const texts = new WeakMap<object, string>()

function mapAscii (text: string): string {
  return NOT_ASCII.test(text) ? text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()) : text.toLowerCase()
}

const NOT_ASCII = /[^\0-\x7f]/

/** Characters from which on it costs less to find what was made of a text than to make it again. */
const LONG_TEXT = 1024

/**
 * Long texts of which something is remembered. A request whose conditions ask for more has shorter ones, as its body is
 * limited.
 */
const LONG_TEXTS = 16

/**
 * Makes something of a text, and remembers it for the conditions that ask next: of the last short text, and of long
 * ones until the event loop turns, as long as a request is worked on. The time must not grow with megabytes times
 * conditions.
 */
export function rememberTexts<Made extends NonNullable<unknown> | null> (
  make: (text: string) => Made
): (text: string) => Made {
  const known = new Map<string, Made>()
  let last: string | undefined
  let lastMade: Made
  return (text) => {
    if (text === last) return lastMade
    if (text.length < LONG_TEXT) {
      lastMade = make(text)
      last = text
      return lastMade
    }
    const earlier = known.get(text)
    if (earlier !== undefined) return earlier
    if (known.size === 0) setImmediate(() => known.clear()).unref()
    if (known.size === LONG_TEXTS) known.clear()
    const made = make(text)
    known.set(text, made)
    return made
  }
}

/** Lower-cases A to Z only, as the text operators do; `exact` uses the full Unicode mapping. */
export const lowerAscii = rememberTexts(mapAscii)

/** Objects nested deeper keep their order of names: the JSON of a request must not exhaust the stack. */
const MAX_DEPTH = 20

function sortNames (value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || isExactNumber(value) || depth > MAX_DEPTH) return value
  if (Array.isArray(value)) return value.map((item) => sortNames(item, depth + 1))
  const entries = Object.entries(value).map(([name, item]) => [name, sortNames(item, depth + 1)] as const)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}
