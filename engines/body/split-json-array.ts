import { HttpError } from '../errors.ts'
import { bodyError, tooManyValues } from './read-body.ts'
import { parseJson } from './parse-json.ts'
import { isTooMuch, UNLIMITED, type ValueLimits } from './value-limits.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** What a byte outside strings is. `N` and `I` begin `NaN` and `Infinity`, which cost as much as a value. */
const OTHER = 0
const STRING = 1
const OPENS = 2
const CLOSES = 3
const ADDS_VALUE = 4
const KINDS = new Uint8Array(256)
KINDS[QUOTE] = STRING
KINDS[OPEN_ARRAY] = KINDS[OPEN_OBJECT] = OPENS
KINDS[CLOSE_ARRAY] = KINDS[CLOSE_OBJECT] = CLOSES
for (const character of ',NI') KINDS[character.charCodeAt(0)] = ADDS_VALUE

/** Fields of the top level larger than this are not parsed: no name, key or time is. In bytes. */
const MAX_FIELD_BYTES = 4096

/** A JSON text split into the elements of its one long array, unparsed. */
export interface SplitJson {
  /** Small fields beside the array, parsed. Empty when the array is the whole text. */
  fields: Record<string, unknown>
  /** Names of all fields, the large ones included. */
  names: Set<string>
  /** Byte positions: start of element 0, its end, start of element 1, ...; null when there is no such array. */
  ranges: number[] | null
  /** The fields that are too large to be parsed, with their byte positions. */
  unparsed: { name: string, start: number, end: number }[]
  /** Byte positions of the elements and fields that are too much for one event: the end by the start. */
  oversized: Map<number, number>
  /** How many values there are (`value-limits.ts`). */
  values: number
}

/**
 * Finds the elements of a top-level array, or of the array in one field of a top-level object, without parsing them.
 *
 * A large body is then parsed piece by piece: a hundred megabytes are never one string, nor one tree of objects. Only
 * the structure around the elements is checked here; errors inside one surface when it is parsed.
 *
 * @param arrayField  Name of the field with the array.
 * @param limits      Of the whole text; a text beyond one is refused as soon as that is known.
 * @throws {HttpError} 400 `invalid_json`; 413 `body_too_large`.
 */
export function splitJsonArray (bytes: Uint8Array, arrayField: string, limits: ValueLimits = UNLIMITED): SplitJson {
  const start = skipBlanks(bytes, 0)
  const split: Splitting = {
    fields: {}, names: new Set(), ranges: null, unparsed: [], oversized: new Map(), values: 1, limits
  }
  let end: number
  if (bytes[start] === OPEN_ARRAY) {
    split.ranges = []
    end = readElements(bytes, start, split, split.ranges)
  } else {
    end = readFields(bytes, start, { split, arrayField })
  }
  if (skipBlanks(bytes, end) !== bytes.length) throw invalid()
  return split
}

/**
 * Counts the values of JSON text.
 *
 * @throws {HttpError} 413 `body_too_large` when there are more than `max`; 400 `invalid_json`, but not for all that is
 *   no JSON.
 */
export function countValues (bytes: Uint8Array, max: number): number {
  const counted: Counted = { values: 0, limits: { ...UNLIMITED, values: max } }
  skipValue(bytes, skipBlanks(bytes, 0), counted)
  return counted.values
}

/** Whether JSON text has more than `max` values; false for invalid JSON. */
export function hasMoreValues (bytes: Uint8Array, max: number): boolean {
  // Each takes a byte.
  if (bytes.length <= max) return false
  try {
    countValues(bytes, max)
    return false
  } catch (error) {
    return error instanceof HttpError && error.status === 413
  }
}

/** How many values were met so far, and may be. */
interface Counted {
  values: number
  readonly limits: ValueLimits
}

type Splitting = SplitJson & Counted

function readFields (bytes: Uint8Array, start: number, into: { split: Splitting, arrayField: string }): number {
  if (bytes[start] !== OPEN_OBJECT) throw invalid()
  let at = skipBlanks(bytes, start + 1)
  if (bytes[at] === CLOSE_OBJECT) return at + 1
  for (let fields = 0; ; fields++) {
    if (fields === into.split.limits.fields) throw tooManyValues(fields, 'fields in one object')
    if (bytes[at] !== QUOTE) throw invalid()
    const nameEnd = skipString(bytes, at)
    const name = parseRange(bytes, at, nameEnd) as string
    at = skipBlanks(bytes, nameEnd)
    if (bytes[at] !== COLON) throw invalid()
    at = skipBlanks(bytes, at + 1)
    at = skipBlanks(bytes, readField(bytes, at, { ...into, name }))
    if (bytes[at] === CLOSE_OBJECT) return at + 1
    if (bytes[at] !== COMMA) throw invalid()
    at = skipBlanks(bytes, at + 1)
  }
}

function readField (
  bytes: Uint8Array, start: number, { split, arrayField, name }: { split: Splitting, arrayField: string, name: string }
): number {
  split.names.add(name)
  if (name === arrayField && bytes[start] === OPEN_ARRAY) {
    // A repeated name means its last value, as everywhere in JSON.
    split.ranges = []
    return readElements(bytes, start, split, split.ranges)
  }
  if (name === arrayField) split.ranges = null
  const end = skipMember(bytes, start, split)
  if (end - start <= MAX_FIELD_BYTES) {
    const value = parseRange(bytes, start, end)
    // Not an assignment: a field may be named `__proto__`.
    Object.defineProperty(split.fields, name, { value, enumerable: true, configurable: true })
  } else {
    split.unparsed.push({ name, start, end })
  }
  return end
}

function readElements (bytes: Uint8Array, start: number, split: Splitting, ranges: number[]): number {
  let at = skipBlanks(bytes, start + 1)
  if (bytes[at] === CLOSE_ARRAY) return at + 1
  while (true) {
    const end = skipMember(bytes, at, split)
    if (ranges.push(at, end) > 2 * split.limits.elements) throw tooManyValues(split.limits.elements, 'events')
    at = skipBlanks(bytes, end)
    if (bytes[at] === CLOSE_ARRAY) return at + 1
    if (bytes[at] !== COMMA) throw invalid()
    at = skipBlanks(bytes, at + 1)
  }
}

/** Position behind an element or the value of a field, which is marked if it is too much for one event. */
function skipMember (bytes: Uint8Array, start: number, split: Splitting): number {
  const before = split.values++
  const end = skipValue(bytes, start, split)
  if (isTooMuch(split.values - before, end - start)) split.oversized.set(start, end)
  return end
}

function skipBlanks (bytes: Uint8Array, at: number): number {
  let byte = bytes[at]
  while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++at]
  return at
}

/** Position behind the value that begins at `at`. Brackets are counted, not matched: parsing the value does that. */
function skipValue (bytes: Uint8Array, at: number, counted: Counted): number {
  const first = bytes[at]
  if (first === QUOTE) return skipString(bytes, at)
  if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return skipScalar(bytes, at)
  const { limits } = counted
  let depth = 0
  while (at < bytes.length) {
    const kind = KINDS[bytes[at] ?? 0]
    if (kind === STRING) {
      at = skipString(bytes, at)
      continue
    }
    at++
    if (kind === OTHER) continue
    if (kind === CLOSES) {
      if (--depth === 0) return at
      continue
    }
    if (kind === OPENS) depth++
    if (++counted.values > limits.values) throw tooManyValues(limits.values)
  }
  throw invalid()
}

function skipString (bytes: Uint8Array, at: number): number {
  for (at++; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === QUOTE) return at + 1
    if (byte === BACKSLASH) at++
  }
  throw invalid()
}

function skipScalar (bytes: Uint8Array, start: number): number {
  let at = start
  for (let byte = bytes[at]; byte !== undefined; byte = bytes[++at]) {
    if (byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT || byte <= 0x20) break
  }
  if (at === start) throw invalid()
  return at
}

function parseRange (bytes: Uint8Array, start: number, end: number): unknown {
  return parseJson(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString())
}

function invalid (): Error {
  return bodyError('invalid_json', 'The body is not valid JSON.')
}
