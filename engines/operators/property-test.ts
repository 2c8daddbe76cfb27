import { isExactNumber, replaceOutsideStrings } from '../body/parse-json.ts'
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
 * The text by which a property value is compared: a string itself, anything else its JSON as ClickHouse writes it, with
 * sorted names, so that equal objects have equal texts. `question-sql.ts` says the same in SQL.
 */
export function propertyText (value: unknown): string {
  if (typeof value === 'string') return value.isWellFormed() ? value : value.toWellFormed()
  if (typeof value === 'number') return Number.isFinite(value) ? String(value).replace('e+', 'e') : 'null'
  if (isExactNumber(value)) return value.rawJSON
  if (typeof value !== 'object' || value === null) return String(value)
  let text = texts.get(value)
  if (text === undefined) texts.set(value, text = asClickHouseWrites(sortedJson(value, SORTED_LEVELS)))
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

/** Objects nested deeper keep their order of names: SQL has no recursion, and spells out every level. */
export const SORTED_LEVELS = 6

function sortedJson (value: unknown, levels: number): string {
  if (typeof value !== 'object' || value === null || isExactNumber(value) || levels === 0) return stringifyJson(value)
  if (Array.isArray(value)) return `[${value.map((item) => sortedJson(item, levels - 1)).join(',')}]`
  const entries = Object.entries(value).map(([name, item]) => [name.toWellFormed(), item] as const)
  entries.sort(([a], [b]) => compareCharacters(a, b))
  return `{${entries.map(([name, item]) => `${stringifyJson(name)}:${sortedJson(item, levels - 1)}`).join(',')}}`
}

/** By code points, as the bytes of UTF-8 are ordered; JavaScript compares halves of pairs. */
function compareCharacters (a: string, b: string): number {
  return SURROGATE.test(a) || SURROGATE.test(b) ? Buffer.compare(Buffer.from(a), Buffer.from(b)) : a < b ? -1 : 1
}

const SURROGATE = /[\ud800-\udfff]/

/** ClickHouse writes `1e21` for `1e+21`, escapes in upper case, and escapes two characters that JavaScript does not. */
function asClickHouseWrites (json: string): string {
  const text = json.includes('e+') ? replaceOutsideStrings(json, /"|e\+/g, () => 'e') : json
  return text.replace(/\\(?:u[\da-f]{4}|.)|[\u2028\u2029]/g, (part) =>
    part.length === 2 ? part : `\\u${part.length === 1 ? part.charCodeAt(0).toString(16) : part.slice(2).toUpperCase()}`)
}
