/** What the checks of a compiled schema share while one event is checked: the steps that are left, and the failure. */
import { isExactNumber } from '../body/parse-json.ts'

/**
 * Checks a value as it is stored (`storedValue`). When it returns false, it has called `fail`.
 */
export type Check = (value: unknown) => boolean

/** Why the properties of an event do not meet their schema. */
export interface SchemaFailure {
  /** Where, as a JSON pointer into the properties; empty: the properties as a whole. */
  path: string
  /** The keyword of the schema that is not met; `limit`: checking would take too many steps. */
  keyword: string
  /** The value at fault, as stored; undefined when it is missing. */
  value: unknown
}

/**
 * Steps of one event at most. A step is a tenth of a check that depends on the size of the value (an item of an array,
 * a name that the schema does not list), or a character of a text against an instruction of a pattern. Two million are
 * 10 to 40 ms; an event of some kilobytes takes some hundreds.
 */
const MAX_STEPS = 2_000_000

/** Where the properties come from: the table, or a client. */
export type Origin = 'stored' | 'sent'

let isStored = false
let steps = 0
let path = ''
let keyword = ''
let failedValue: unknown

/** Begins with another event, which has all its steps. */
export function begin (origin: Origin): void {
  isStored = origin === 'stored'
  steps = MAX_STEPS
}

/** Runs a check of a whole schema on the properties of an event. */
export function evaluate (check: Check, properties: unknown, origin: Origin): SchemaFailure | null {
  begin(origin)
  const isMet = check(properties)
  // Whatever the checks said that were given up: it holds for no more than a part of the value.
  if (steps < 0) return { path: '', keyword: 'limit', value: undefined }
  return isMet ? null : { path, keyword, value: failedValue }
}

/** Takes steps of the event; false when none are left. */
export function spend (count: number): boolean {
  return (steps -= count) >= 0
}

/** Remembers why a check fails. */
export function fail (failed: string, value: unknown): false {
  path = ''
  keyword = failed
  failedValue = value
  return false
}

/** Puts the failure below a property or an item. */
export function failBelow (name: string | number): false {
  path = `/${typeof name === 'number' ? name : name.replaceAll('~', '~0').replaceAll('/', '~1')}${path}`
  return false
}

/** From here on, the digits of a whole number may be those of one with more than 64 bits. */
const LARGE = 2 ** 63
const LARGEST_64_BITS = 2n ** 64n - 1n
const SMALLEST_64_BITS = -(2n ** 63n)

/**
 * A value as a reader of the stored JSON has it: a check of stored events then says what the check at ingest said.
 * Exact numbers become doubles; whole numbers of more than 64 bits are stored as the text of their digits
 * (`engines/body/stringify-json.ts`).
 */
export function storedValue (value: unknown): unknown {
  if (typeof value === 'number') return isStored || (value < LARGE && value > -LARGE) ? value : storedNumber(value, String(value))
  if (typeof value === 'object' && isExactNumber(value)) return storedNumber(Number(value.rawJSON), value.rawJSON)
  return value
}

function storedNumber (value: number, text: string): number | string | null {
  // Infinity, as of 1e400, has no JSON.
  if (text.includes('Inf')) return null
  if (!/^-?\d+$/.test(text)) return value
  // No 64 bits have more digits than 20, and BigInt would take its time for very many.
  if (text.length > 21) return text
  const exact = BigInt(text)
  return exact > LARGEST_64_BITS || exact < SMALLEST_64_BITS ? text : value
}
