import { bodyError } from './read-body.ts'
import { parseJson } from './parse-json.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

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
  /** Byte positions of the fields that are too large to be parsed: start and end of each. */
  unparsed: number[]
}

/**
 * Finds the elements of a top-level array, or of the array in one field of a top-level object, without parsing them.
 *
 * A large body is then parsed piece by piece: a hundred megabytes are never one string, nor one tree of objects. Only
 * the structure around the elements is checked here; what is wrong inside one shows when it is parsed.
 *
 * @param arrayField  Name of the field with the array.
 * @throws {HttpError} 400 `invalid_json`.
 */
export function splitJsonArray (bytes: Uint8Array, arrayField: string): SplitJson {
  const start = skipBlanks(bytes, 0)
  const split: SplitJson = { fields: {}, names: new Set(), ranges: null, unparsed: [] }
  let end: number
  if (bytes[start] === OPEN_ARRAY) {
    split.ranges = []
    end = readElements(bytes, start, split.ranges)
  } else {
    end = readFields(bytes, start, { split, arrayField })
  }
  if (skipBlanks(bytes, end) !== bytes.length) throw invalid()
  return split
}

function readFields (bytes: Uint8Array, start: number, into: { split: SplitJson, arrayField: string }): number {
  if (bytes[start] !== OPEN_OBJECT) throw invalid()
  let at = skipBlanks(bytes, start + 1)
  if (bytes[at] === CLOSE_OBJECT) return at + 1
  while (true) {
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
  bytes: Uint8Array, start: number, { split, arrayField, name }: { split: SplitJson, arrayField: string, name: string }
): number {
  split.names.add(name)
  if (name === arrayField && bytes[start] === OPEN_ARRAY) {
    // A repeated name means its last value, as everywhere in JSON.
    split.ranges = []
    return readElements(bytes, start, split.ranges)
  }
  if (name === arrayField) split.ranges = null
  const end = skipValue(bytes, start)
  if (end - start <= MAX_FIELD_BYTES) {
    const value = parseRange(bytes, start, end)
    // Not an assignment: a field may be named `__proto__`.
    Object.defineProperty(split.fields, name, { value, enumerable: true, configurable: true })
  } else {
    split.unparsed.push(start, end)
  }
  return end
}

function readElements (bytes: Uint8Array, start: number, ranges: number[]): number {
  let at = skipBlanks(bytes, start + 1)
  if (bytes[at] === CLOSE_ARRAY) return at + 1
  while (true) {
    const end = skipValue(bytes, at)
    ranges.push(at, end)
    at = skipBlanks(bytes, end)
    if (bytes[at] === CLOSE_ARRAY) return at + 1
    if (bytes[at] !== COMMA) throw invalid()
    at = skipBlanks(bytes, at + 1)
  }
}

function skipBlanks (bytes: Uint8Array, at: number): number {
  let byte = bytes[at]
  while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++at]
  return at
}

/** Position behind the value that begins at `at`. Brackets are counted, not matched: parsing the value does that. */
function skipValue (bytes: Uint8Array, at: number): number {
  const first = bytes[at]
  if (first === QUOTE) return skipString(bytes, at)
  if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return skipScalar(bytes, at)
  let depth = 0
  while (at < bytes.length) {
    const byte = bytes[at]
    if (byte === QUOTE) {
      at = skipString(bytes, at)
      continue
    }
    at++
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++
    else if ((byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) && --depth === 0) return at
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
