import type { DefinitionError } from '../errors.ts'
import type { CompilePattern, TextTest } from './compile-text.ts'
import type { Check } from './evaluation.ts'

/** Bounds of a schema (docs/change/rules-and-schemas.md). */
export const SCHEMA_LIMITS = {
  /** Of its JSON text. */
  bytes: 65_536,
  /** Names on the way to a subschema: `properties` and the name of a property are two. */
  depth: 32,
  /** Subschemas, those that references repeat included. */
  subschemas: 1000,
  /** Values of an `enum`, names of a list. */
  values: 1000,
  /** Characters of a name of a property. */
  nameLength: 200
} as const

/** Keywords that say nothing about values. */
export const ANNOTATIONS: ReadonlySet<string> = new Set([
  'title', 'description', 'default', 'examples', 'deprecated', '$comment'
])

/** A place in the schema that is being compiled. */
export interface Place {
  path: readonly string[]
  at: (...names: string[]) => Place
  error: (message: string) => DefinitionError
  /** Compiles the subschema here. */
  compile: (schema: unknown) => Check
  /** Subschemas that were compiled so far. */
  count: () => number
  pattern: CompilePattern
}

/** Compiles the value of a keyword. */
export type CompileKeyword = (value: unknown, place: Place) => Check[]

/** What a subschema takes of the steps of an event, for each item or name that it is tried on. */
const STEPS_PER_SUBSCHEMA = 10

/** A subschema that is tried on many values. */
export interface Repeated {
  check: Check
  /** What one value takes of the steps of an event. */
  steps: number
}

export function compileRepeated (schema: unknown, place: Place): Repeated {
  const before = place.count()
  const check = place.compile(schema)
  return { check, steps: (place.count() - before) * STEPS_PER_SUBSCHEMA }
}

/** @throws {DefinitionError} */
export function readCount (value: unknown, place: Place): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw place.error('Expected a whole number of at least 0.')
  return value
}

/** @throws {DefinitionError} when the engine does not take the pattern. */
export function readPattern (value: unknown, place: Place): TextTest {
  const test = typeof value === 'string' ? place.pattern(value) : 'Expected a regular expression.'
  if (typeof test === 'string') throw place.error(test)
  return test
}

/** @throws {DefinitionError} */
export function readEntries (value: unknown, place: Place): [string, unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw place.error('Expected an object.')
  return Object.entries(value)
}

/**
 * The name of a property. `__proto__` is not one: it means another thing wherever an object is made of names.
 *
 * @throws {DefinitionError}
 */
export function readName (name: unknown, place: Place): string {
  if (typeof name !== 'string' || name === '' || name.length > SCHEMA_LIMITS.nameLength) throw place.error(`Expected a name of 1 to ${SCHEMA_LIMITS.nameLength} characters.`)
  if (name === '__proto__') throw place.error('The name __proto__ is not allowed.')
  return name
}
