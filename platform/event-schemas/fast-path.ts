/**
 * The fast path of a property: most schemas ask for no more than a type, an interval, a length, or one of some values.
 * All of that is one object and one function, where the checks are some closures each, which lie apart in memory: with
 * 500 schemas in turns, fetching them takes longer than what they do (docs/benchmarks.md).
 */
import { isObject } from './evaluation.ts'
import { ANNOTATIONS } from './schema-place.ts'

/** What a subschema asks; null: nothing of the kind. */
export interface FastPath {
  /** A bit for each type that it allows. */
  types: number
  values: ReadonlySet<unknown> | null
  minimum: number | null
  maximum: number | null
  /** Texts of so many UTF-16 units have enough characters. */
  enoughLength: number
  maxLength: number | null
}

const STRING = 1
const INTEGER = 2
/** A number that is not whole. */
const FRACTION = 4
const BOOLEAN = 8
const NULL = 16
const OBJECT = 32
const ARRAY = 64
const ANY = 127

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
 * @returns null when it has other keywords.
 */
export function compileFastPath (subschema: unknown): FastPath | null {
  if (subschema === true) return compileFastPath({})
  if (!isObject(subschema) || !Object.keys(subschema).every((keyword) => KEYWORDS.has(keyword))) return null
  const { type, enum: values, const: only, minimum, maximum, minLength, maxLength } = subschema
  if (values !== undefined && only !== undefined) return null
  const types = type === undefined ? [] : Array.isArray(type) ? type as string[] : [type as string]
  const known = values !== undefined ? values as unknown[] : only !== undefined ? [only] : null
  return {
    types: type === undefined ? ANY : types.reduce((bits, name) => bits | (TYPE_BITS[name] ?? 0), 0),
    values: known === null ? null : new Set(known),
    minimum: minimum as number | undefined ?? null,
    maximum: maximum as number | undefined ?? null,
    // A character has one unit, or two.
    enoughLength: minLength === undefined ? 0 : 2 * (minLength as number) - 1,
    maxLength: maxLength as number | undefined ?? null
  }
}

/**
 * Whether a value, as it is stored, meets the subschema for sure. Where this is false, its checks decide, and say what
 * is wrong.
 */
export function surelyMeets (
  { types, values, minimum, maximum, enoughLength, maxLength }: FastPath, value: unknown
): boolean {
  if (typeof value === 'string') {
    if ((types & STRING) === 0) return false
    if (value.length < enoughLength || (maxLength !== null && value.length > maxLength)) return false
  } else if (typeof value === 'number') {
    if ((types & FRACTION) === 0 && ((types & INTEGER) === 0 || !Number.isInteger(value))) return false
    if ((minimum !== null && value < minimum) || (maximum !== null && value > maximum)) return false
  } else if ((types & bitOf(value)) === 0) return false
  return values === null || values.has(value)
}

function bitOf (value: unknown): number {
  if (typeof value === 'boolean') return BOOLEAN
  if (value === null) return NULL
  return Array.isArray(value) ? ARRAY : OBJECT
}
