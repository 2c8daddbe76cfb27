/** The keywords of objects: which properties there must be, and what each of them must be. */
import { isFields } from '../fields.ts'
import { type Check, fail, failBelow, spend, storedValue } from './evaluation.ts'
import { compileRepeated, type Place, readCount, readEntries, readName, readPattern, SCHEMA_LIMITS } from './schema-place.ts'

/** The keywords that are read here. */
export const OBJECT_KEYWORDS: ReadonlySet<string> = new Set([
  'properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties', 'maxProperties', 'dependentRequired'
])

/** The checks of a schema. */
export interface Checks {
  /** To find out whether all hold, as fast as possible. */
  all: Check[]
  /** The same, each property by itself, to find out which do not hold. */
  each: Check[]
}

/** Compiles the keywords of objects of a schema. */
export function compileObject (schema: Readonly<Record<string, unknown>>, place: Place): Checks {
  const { dependentRequired, minProperties, maxProperties } = schema
  const properties = readProperties(schema, place)
  const others = [
    ...compileUnnamed(schema, place),
    ...dependentRequired === undefined ? [] : compileDependent(dependentRequired, place.at('dependentRequired')),
    ...minProperties === undefined ? [] : [compileSize('minProperties', readCount(minProperties, place.at('minProperties')))],
    ...maxProperties === undefined ? [] : [compileSize('maxProperties', readCount(maxProperties, place.at('maxProperties')))]
  ]
  return {
    all: [...properties.length === 0 ? [] : [compileNamed(properties)], ...others],
    each: [...properties.map((property) => compileNamed([property])), ...others]
  }
}

/** What looking at a name takes of the steps of an event. */
const STEPS_PER_NAME = 10

/** What a schema says about a property by its name. */
interface NamedProperty {
  name: string
  isRequired: boolean
  check: Check
  /** Every object inherits some names: only a look at its own properties tells. */
  isInherited: boolean
}

function readProperties (schema: Readonly<Record<string, unknown>>, place: Place): NamedProperty[] {
  const { properties = {}, required = [] } = schema
  const named = new Map(readEntries(properties, place.at('properties')).map(([sent, subschema]) => {
    const here = place.at('properties', sent)
    return [readName(sent, here), share(here.compile(subschema), subschema)]
  }))
  const names = new Set(readNames(required, place.at('required')))
  for (const name of names) if (!named.has(name)) named.set(name, () => true)
  return Array.from(named, ([name, check]) =>
    ({ name, isRequired: names.has(name), check, isInherited: name in Object.prototype }))
}

/** Checks remembered before the memory starts over: some megabytes, as longer subschemas are not remembered. */
const MAX_SHARED = 5000
const MAX_SHARED_LENGTH = 300

let shared = new Map<string, Check>()

/**
 * The same check for equal subschemas of all schemas. With 500 schemas in turns, fetching closures from memory takes
 * longer than what they do, and the properties of a project are mostly alike in all of its schemas: sharing saves half
 * of the time.
 */
function share (check: Check, subschema: unknown): Check {
  const text = JSON.stringify(subschema)
  // A reference means what its own schema defines.
  if (text.length > MAX_SHARED_LENGTH || text.includes('$ref')) return check
  const known = shared.get(text)
  if (known !== undefined) return known
  if (shared.size === MAX_SHARED) shared = new Map()
  shared.set(text, check)
  return check
}

function compileNamed (properties: readonly NamedProperty[]): Check {
  return (value) => {
    if (!isFields(value)) return true
    for (const { name, isRequired, check, isInherited } of properties) {
      const property = isInherited && !Object.hasOwn(value, name) ? undefined : value[name]
      // Undefined counts as absent: JSON leaves it out.
      if (property === undefined) {
        if (isRequired) return fail('required', undefined) || failBelow(name)
        continue
      }
      if (!check(typeof property === 'string' ? property : storedValue(property))) return failBelow(name)
    }
    return true
  }
}

/** What holds for properties by a pattern of their name, or for those that nothing else names. */
function compileUnnamed (schema: Readonly<Record<string, unknown>>, place: Place): Check[] {
  const { properties, patternProperties = {}, additionalProperties } = schema
  const patterns = readEntries(patternProperties, place.at('patternProperties')).map(([pattern, subschema]) => {
    const here = place.at('patternProperties', pattern)
    return { test: readPattern(pattern, here), ...compileRepeated(subschema, here) }
  })
  const others = additionalProperties === undefined ? null : compileRepeated(additionalProperties, place.at('additionalProperties'))
  if (patterns.length === 0 && others === null) return []
  const names = new Set(Object.keys(properties ?? {}))
  const steps = [...patterns, others ?? { steps: 0 }].reduce((sum, each) => sum + each.steps, STEPS_PER_NAME)
  return [(value) => {
    if (!isFields(value)) return true
    for (const name in value) {
      if (value[name] === undefined) continue
      if (!spend(steps)) return fail('limit', value)
      const property = storedValue(value[name])
      let isNamed = names.has(name)
      for (const { test, check } of patterns) {
        if (!test(name)) continue
        isNamed = true
        if (!check(property)) return failBelow(name)
      }
      // Whatever is not right about it, the name is not among those that are known.
      if (!isNamed && others !== null && !others.check(property)) return fail('additionalProperties', property) || failBelow(name)
    }
    return true
  }]
}

function compileDependent (value: unknown, place: Place): Check[] {
  return readEntries(value, place).flatMap(([name, names]) => {
    readName(name, place.at(name))
    const read = createRead(name)
    return readNames(names, place.at(name)).map((other): Check => {
      const readOther = createRead(other)
      return (object) => {
        if (!isFields(object) || read(object) === undefined || readOther(object) !== undefined) return true
        return fail('dependentRequired', undefined) || failBelow(other)
      }
    })
  })
}

function compileSize (keyword: 'minProperties' | 'maxProperties', limit: number): Check {
  return (value) => {
    if (!isFields(value)) return true
    let size = 0
    for (const name in value) if (value[name] !== undefined) size++
    return (keyword === 'minProperties' ? size >= limit : size <= limit) || fail(keyword, value)
  }
}

function createRead (name: string): (object: Readonly<Record<string, unknown>>) => unknown {
  if (name in Object.prototype) return (object) => Object.hasOwn(object, name) ? object[name] : undefined
  return (object) => object[name]
}

function readNames (value: unknown, place: Place): string[] {
  if (!Array.isArray(value) || value.length > SCHEMA_LIMITS.values) throw place.error(`Expected a list of at most ${SCHEMA_LIMITS.values} names.`)
  return value.map((name, index) => readName(name, place.at(String(index))))
}
