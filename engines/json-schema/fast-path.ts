/**
 * The fast path of a property: most schemas ask for no more than a type, an interval, a length, or one of some values.
 * All of that is some places of an array and one function, where the checks are some closures each, which lie apart in
 * memory: with 500 schemas in turns, fetching them takes longer than what they do (docs/benchmarks.md).
 */
import { type Check, isObject } from './evaluation.ts'
import { ANNOTATIONS } from './schema-place.ts'

/**
 * What a subschema asks: flags, then what the flags say that there is, in the order of {@link BOUNDS}, {@link LENGTHS},
 * {@link VALUES} and {@link CHECKED}. It may be a part of a longer array.
 */
export type FastPath = readonly unknown[]

const STRING = 1
const INTEGER = 2
/** A number that is not whole. */
const FRACTION = 4
const BOOLEAN = 8
const NULL = 16
const OBJECT = 32
const ARRAY = 64
const ANY = 127

/** The least and the greatest number. */
const BOUNDS = 128
/** Texts of so many UTF-16 units have enough characters, and of so many not too many. */
const LENGTHS = 256
/** A set of all values. */
const VALUES = 512
/** A check that decides alone: the subschema has keywords that are not decided here. */
const CHECKED = 1024
/** From this bit on: how many places the fast path takes. */
const SIZE_SHIFT = 16

const TYPE_BITS: Readonly<Record<string, number>> = {
  string: STRING,
  number: INTEGER | FRACTION,
  integer: INTEGER,
  boolean: BOOLEAN,
  null: NULL,
  object: OBJECT,
  array: ARRAY
}

const KEYWORDS: ReadonlySet<string> = new Set([
  'type', 'enum', 'const', 'minimum', 'maximum', 'minLength', 'maxLength', ...ANNOTATIONS
])

/**
 * @param subschema  One that compiles.
 * @param check  What it was compiled to.
 */
export function compileFastPath (subschema: unknown, check: Check): FastPath {
  if (subschema === true) return toFastPath(ANY)
  const isDecided = isObject(subschema) && Object.keys(subschema).every((keyword) => KEYWORDS.has(keyword))
  if (!isDecided) return toFastPath(CHECKED, check)
  const { type, enum: values, const: only, minimum, maximum, minLength, maxLength } = subschema
  if (values !== undefined && only !== undefined) return toFastPath(CHECKED, check)
  const types = type === undefined ? null : Array.isArray(type) ? type as string[] : [type as string]
  let flags = types === null ? ANY : types.reduce((bits, name) => bits | (TYPE_BITS[name] ?? 0), 0)
  const asked: unknown[] = []
  if (minimum !== undefined || maximum !== undefined) {
    flags |= BOUNDS
    asked.push(minimum ?? -Infinity, maximum ?? Infinity)
  }
  if (minLength !== undefined || maxLength !== undefined) {
    flags |= LENGTHS
    // A character has one unit, or two.
    asked.push(minLength === undefined ? 0 : 2 * (minLength as number) - 1, maxLength ?? Infinity)
  }
  if (values !== undefined || only !== undefined) {
    flags |= VALUES
    asked.push(new Set(values === undefined ? [only] : values as unknown[]))
  }
  return toFastPath(flags, ...asked)
}

function toFastPath (flags: number, ...asked: unknown[]): FastPath {
  return [flags | (1 + asked.length) << SIZE_SHIFT, ...asked]
}

/** How many places the fast path takes that begins at `at`. */
export function sizeOfFastPath (path: FastPath, at = 0): number {
  return (path[at] as number) >> SIZE_SHIFT
}

/**
 * Whether a value, as it is stored, meets the subschema for sure. Where this is false, its checks decide, and say what
 * is wrong.
 *
 * @param at  Where the fast path begins.
 */
export function surelyMeets (path: FastPath, value: unknown, at = 0): boolean {
  const flags = path[at] as number
  if ((flags & CHECKED) !== 0) return (path[at + 1] as Check)(value)
  let next = at + 1
  if (typeof value === 'string') {
    if ((flags & STRING) === 0) return false
    if ((flags & BOUNDS) !== 0) next += 2
    if ((flags & LENGTHS) !== 0) {
      if (value.length < (path[next] as number) || value.length > (path[next + 1] as number)) return false
      next += 2
    }
  } else {
    if (typeof value === 'number') {
      if ((flags & FRACTION) === 0 && ((flags & INTEGER) === 0 || !Number.isInteger(value))) return false
      if ((flags & BOUNDS) !== 0 && (value < (path[next] as number) || value > (path[next + 1] as number))) return false
    } else if ((flags & bitOf(value)) === 0) return false
    if ((flags & BOUNDS) !== 0) next += 2
    if ((flags & LENGTHS) !== 0) next += 2
  }
  return (flags & VALUES) === 0 || (path[next] as ReadonlySet<unknown>).has(value)
}

function bitOf (value: unknown): number {
  if (typeof value === 'boolean') return BOOLEAN
  if (value === null) return NULL
  return Array.isArray(value) ? ARRAY : OBJECT
}
