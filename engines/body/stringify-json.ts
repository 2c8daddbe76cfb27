import { replaceLoneSurrogates } from './storable-text.ts'
import { hasLongDigits, replaceOutsideStrings } from './parse-json.ts'
import { isDeeperThan, MAX_PROPERTY_DEPTH } from './property-depth.ts'

/**
 * The JSON text of a parsed JSON value, fit to be stored: any depth, and every character has a UTF-8 form.
 *
 * `JSON.stringify` compares each array and object with all levels above, and gives up some thousand levels down,
 * where `JSON.parse` does not. It writes lone surrogates as escapes, which the JSON functions of ClickHouse and
 * Postgres refuse together with everything around them. ClickHouse refuses whole numbers of more than 64 bits, too:
 * those are written as strings of their digits, which its functions for numbers read.
 */
export function stringifyJson (value: unknown): string {
  return isDeeperThan(value, MAX_PROPERTY_DEPTH)
    ? toStorable(stringifyWithOwnStack(value))
    : stringifyShallowJson(value)
}

/** The same of a value that is known to be nested no deeper than `MAX_PROPERTY_DEPTH`. */
export function stringifyShallowJson (value: unknown): string {
  return toStorable(JSON.stringify(value) ?? 'null')
}

function toStorable (json: string): string {
  const text = replaceLoneSurrogates(json)
  return hasLongDigits(text, HUGE_DIGITS) ? quoteHugeNumbers(text) : text
}

/** The least digits of a whole number that has more than 64 bits. */
const HUGE_DIGITS = 19

const QUOTE_OR_NUMBER = /"|-?\d[\d.eE+-]*/g

const LARGEST = 2n ** 64n - 1n
const SMALLEST = -(2n ** 63n)

function quoteHugeNumbers (text: string): string {
  return replaceOutsideStrings(text, QUOTE_OR_NUMBER, (token) => isHuge(token) ? `"${token}"` : token)
}

function isHuge (token: string): boolean {
  // Not by a pattern for all of it: one of ten million digits exceeds its stack.
  if (token.length < HUGE_DIGITS || /[.eE]/.test(token)) return false
  // No 64 bits have more digits than 20, and BigInt would take its time for very many.
  if (token.length > 21) return true
  const number = BigInt(token)
  return number > LARGEST || number < SMALLEST
}

/** An array or object that is being written. */
interface Level {
  values: unknown[]
  /** Null for an array. */
  keys: string[] | null
  next: number
}

/** Values nested no deeper are written in one call. Each value is visited once per level. */
const FLAT_DEPTH = 16

/** The same text, slower, with a stack that only memory bounds. */
function stringifyWithOwnStack (root: unknown): string {
  const parts: string[] = []
  const levels: Level[] = []
  write(root)
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    const index = level.next++
    if (index === level.values.length) {
      parts.push(level.keys === null ? ']' : '}')
      levels.pop()
      continue
    }
    if (index > 0) parts.push(',')
    if (level.keys !== null) parts.push(JSON.stringify(level.keys[index]), ':')
    write(level.values[index])
  }
  return parts.join('')

  function write (value: unknown): void {
    if (typeof value !== 'object' || value === null || !isDeeperThan(value, FLAT_DEPTH)) {
      parts.push(JSON.stringify(value))
    } else if (Array.isArray(value)) {
      parts.push('[')
      levels.push({ values: value, keys: null, next: 0 })
    } else {
      parts.push('{')
      levels.push({ values: Object.values(value), keys: Object.keys(value), next: 0 })
    }
  }
}
