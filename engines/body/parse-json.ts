import { randomUUID } from 'node:crypto'
import { isExactNumber, keepDigits } from './exact-number.ts'
import { bodyError } from './read-body.ts'

export { type ExactNumber, isExactNumber, numberText } from './exact-number.ts'

/**
 * Parses JSON text; `NaN` and `Infinity`, which some languages write, count as null.
 *
 * @param keepsDigits  Whole numbers that a double cannot hold become an `ExactNumber`, whatever else is in the text.
 *   Ten times slower: ask `hasLongNumber` first.
 * @throws {HttpError} 400 `invalid_json`.
 */
export function parseJson (text: string, keepsDigits = false): unknown {
  const parse = keepsDigits ? parseExactly : JSON.parse as (text: string) => unknown
  try {
    return parse(text)
  } catch (error) {
    if (/NaN|Infinity/.test(text)) {
      try {
        return parse(replaceNonNumbers(text))
      } catch {
        // The first error stands: it describes what the client sent.
      }
    }
    throw bodyError('invalid_json', 'The body is not valid JSON.', error)
  }
}

/** A constant that JSON lacks, or the quote that begins a string. */
const QUOTE_OR_NON_NUMBER = /"|-?\b(?:Infinity|NaN)\b/g

function replaceNonNumbers (text: string): string {
  return replaceOutsideStrings(text, QUOTE_OR_NON_NUMBER, () => 'null')
}

/**
 * Replaces tokens of JSON text, valid or not, and never anything inside its strings. A string that is not closed ends
 * with the text. Takes time in proportion to the text, whatever it is.
 *
 * Strings are passed over by a loop. A pattern that matches them, too, tries again at every quote of a string that is
 * not closed: 11 s for 80 KB of `\"`. And it needs memory for each escape, more than it gets for a few megabytes.
 *
 * @param pattern  Global; finds the tokens, and the quote that begins a string.
 */
export function replaceOutsideStrings (text: string, pattern: RegExp, replace: (token: string) => string): string {
  const parts: string[] = []
  let end = 0
  pattern.lastIndex = 0
  for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
    const [token] = found
    if (token === '"') {
      pattern.lastIndex = findStringEnd(text, found.index)
      continue
    }
    parts.push(text.slice(end, found.index), replace(token))
    end = pattern.lastIndex
  }
  return end === 0 ? text : parts.join('') + text.slice(end)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Position behind the string that begins at `start`. */
function findStringEnd (text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at + 1
    if (code === BACKSLASH) at++
  }
  return text.length
}

/** The shortest whole number that a double may not hold: 2^53 has as many digits. */
const LONG_DIGITS = 16

/**
 * Whether JSON text may have a number that loses digits when it is parsed: a run of 16 digits that is no fraction.
 * A fraction is a double whatever its digits, and shares and averages have as many (`0.14285714285714285`).
 *
 * Looks at every 16th byte only, since a run of 16 covers one of them; about 0.1 us for an event of 600 bytes.
 */
export function hasLongNumber (bytes: Uint8Array): boolean {
  for (let at = LONG_DIGITS - 1; at < bytes.length; at += LONG_DIGITS) {
    if (!isDigit(bytes[at])) continue
    let first = at
    while (isDigit(bytes[first - 1])) first--
    let end = at + 1
    while (isDigit(bytes[end])) end++
    if (end - first >= LONG_DIGITS && bytes[first - 1] !== POINT) return true
    // A run of digits is looked at once, however long it is.
    at = Math.max(at, end - LONG_DIGITS)
  }
  return false
}

/** The same of a text, for runs of that many digits. */
export function hasLongDigits (text: string, digits: number): boolean {
  for (let at = digits - 1; at < text.length; at += digits) {
    if (!isDigit(text.charCodeAt(at))) continue
    let first = at
    while (isDigit(text.charCodeAt(first - 1))) first--
    let end = at + 1
    while (isDigit(text.charCodeAt(end))) end++
    if (end - first >= digits && text.charCodeAt(first - 1) !== POINT) return true
    at = Math.max(at, end - digits)
  }
  return false
}

const POINT = 0x2e

function isDigit (code: number | undefined): boolean {
  return code !== undefined && code >= 0x30 && code <= 0x39
}

/** Fields of a body and of its events whose type decides what they mean. */
const PLAIN_FIELDS = [
  'batch', 'properties', 'timestamp', 'sent_at', 'offset', 'project_id', '$set', '$set_once', '$unset', 'options', 'context', 'traits'
]
const PLAIN_PROPERTIES = ['$set', '$set_once', '$unset', '$groups', '$group_set']

/**
 * Makes plain numbers of the exact ones in fields that are to be an object, a time or a project: an exact number is an
 * object to JavaScript. Only at the top of a body, of its events and of their properties, as anywhere else these are
 * names like any other.
 */
export function roundFields (body: unknown): void {
  for (const event of Array.isArray(body) ? body : [body]) {
    if (!isFields(event)) continue
    roundEach(event, PLAIN_FIELDS)
    if (isFields(event.properties)) roundEach(event.properties, PLAIN_PROPERTIES)
    if (!Array.isArray(body) && Array.isArray(event.batch)) roundFields(event.batch)
  }
}

function roundEach (fields: Record<string, unknown>, names: readonly string[]): void {
  for (const name of names) {
    const value = fields[name]
    if (isExactNumber(value)) fields[name] = Number(value.rawJSON)
  }
}

function isFields (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !isExactNumber(value)
}

/**
 * Parses JSON text of any depth; whole numbers that a double cannot hold, such as 64-bit ids, become an `ExactNumber`.
 * Ten times slower than `JSON.parse`: look for long numbers first.
 *
 * @throws {SyntaxError} as `JSON.parse` does.
 */
function parseExactly (text: string): unknown {
  try {
    return JSON.parse(text, keepDigits) as unknown
  } catch (error) {
    // Too deep for the reviver, which the parser itself is not.
    if (error instanceof RangeError) return restoreNumbers(JSON.parse(markNumbers(text)))
    throw error
  }
}

/** Parses JSON that we wrote ourselves, and keeps the digits of every long number in it. */
export function parseStoredJson (text: string): unknown {
  return hasLongDigits(text, LONG_DIGITS) ? parseExactly(text) : JSON.parse(text)
}

/** Prefix of the strings that stand for long numbers meanwhile; no client can know it. */
const MARK = `${randomUUID()}:`

const QUOTE_OR_NUMBER = /"|-?\d[\d.eE+-]*/g

function markNumbers (text: string): string {
  return replaceOutsideStrings(text, QUOTE_OR_NUMBER, (token) => token.length >= LONG_DIGITS && !/[.eE]/.test(token) ? `"${MARK}${token}"` : token)
}

/** Turns the marked strings into numbers, with a list of its own instead of the stack. */
function restoreNumbers (parsed: unknown): unknown {
  const root = { value: parsed }
  const todo: object[] = [root]
  for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
    for (const [key, value] of Object.entries(at)) {
      if (typeof value === 'object' && value !== null) {
        todo.push(value as object)
      } else if (typeof value === 'string' && value.startsWith(MARK)) {
        const source = value.slice(MARK.length)
        const number = keepDigits(key, Number(source), { source })
        Object.defineProperty(at, key, { value: number, writable: true, enumerable: true, configurable: true })
      }
    }
  }
  return root.value
}
