import { DefinitionError } from '../errors.ts'
import { isFields } from '../fields.ts'
import { type Checks, compileObject, OBJECT_KEYWORDS } from './compile-object.ts'
import { createCompilePattern } from './compile-text.ts'
import { VALUE_KEYWORDS } from './compile-value.ts'
import { type Check, evaluate, fail, type Origin, type SchemaFailure } from './evaluation.ts'
import { ANNOTATIONS, type CompileKeyword, type Place, SCHEMA_LIMITS } from './schema-place.ts'
import { findUnstorableNumber, UNSTORABLE_NUMBER } from '../body/storable-numbers.ts'

/** The draft that schemas are read by. */
const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

type Properties = Readonly<Record<string, unknown>>

/** A schema that events can be checked against. */
export interface CompiledSchema {
  /**
   * @param properties  As ingest has normalised them (`sent`), or as `JSON.parse` reads them from the table (`stored`).
   * @returns the first failure; null when the properties meet the schema.
   */
  check: (properties: Properties, origin: Origin) => SchemaFailure | null
  /** The first failure of each property, and of the keywords of the whole. */
  failuresOf: (properties: Properties, origin: Origin) => SchemaFailure[]
}

/**
 * Compiles a JSON Schema of the properties of an event into closures. There is no generated code, as Ajv's: a schema is
 * untrusted input, and its patterns, recursion and steps need limits. Looking back runs the same closures: keywords in
 * SQL (700 lines) predicted ten million events in 6 s instead of 20, but were unsure where it mattered.
 *
 * Unsupported keywords are refused, so that nobody relies on a rule that is not enforced.
 *
 * @throws {DefinitionError} naming the first place that cannot be enforced.
 */
export function compileSchema (sent: unknown): CompiledSchema {
  const text = stringifySchema(sent)
  if (!isFields(sent)) throw new DefinitionError([], 'A schema is an object.')
  // The text has null in its place, which is another schema than that of its author.
  const unstorable = findUnstorableNumber(sent)
  if (unstorable !== null) throw new DefinitionError(unstorable, UNSTORABLE_NUMBER)
  // Numbers of the body keep their digits; here they are doubles, as in the table.
  const schema = JSON.parse(text) as Record<string, unknown>
  const { all, each } = compileRoot(schema)
  const whole = join(all)
  return {
    check: (properties, origin) => evaluate(whole, properties, origin),
    failuresOf: (properties, origin) => each.flatMap((check) => evaluate(check, properties, origin) ?? [])
  }
}

/** @throws {DefinitionError} when the text is longer, or its schema deeper, than a schema may be. */
function stringifySchema (sent: unknown): string {
  try {
    if (leastLength(sent, SCHEMA_LIMITS.bytes) <= SCHEMA_LIMITS.bytes) {
      const text = JSON.stringify(sent) ?? ''
      if (Buffer.byteLength(text) <= SCHEMA_LIMITS.bytes) return text
    }
  } catch {
    // The writer gives up some thousand levels down.
    throw new DefinitionError([], `A schema has at most ${SCHEMA_LIMITS.depth} levels.`)
  }
  throw new DefinitionError([], `A schema has at most ${SCHEMA_LIMITS.bytes} bytes.`)
}

/**
 * Characters that the JSON of a value has at least; stops counting when they are more than `limit`. To write out a
 * schema of a megabyte, only to refuse it, holds up other requests for longer than reading it does.
 */
function leastLength (value: unknown, limit: number): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  let length = 0
  for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    if (typeof key === 'string') length += key.length
    length += leastLength((value as Record<string | number, unknown>)[key], limit - length)
    if (length > limit) break
  }
  return length
}

function compileRoot (root: Record<string, unknown>): Checks {
  const { $defs, ...schema } = root
  let subschemas = 0
  const pattern = createCompilePattern()
  /** Names of the definitions that are being compiled: one of them inside itself would never end. */
  const open = new Set<string>()
  if ($defs !== undefined && !isFields($defs)) throw new DefinitionError(['$defs'], 'Expected an object of schemas.')
  const definitions = new Map(Object.entries($defs ?? {}))
  const start = createPlace([])
  for (const [name, definition] of definitions) start.at('$defs', name).compile(definition)
  if (schema.type !== undefined && schema.type !== 'object') throw start.at('type').error('The properties of an event are an object.')
  return compileKeywords(schema, start)

  function createPlace (path: readonly string[]): Place {
    return {
      path,
      at: (...names) => createPlace([...path, ...names]),
      error: (message) => new DefinitionError(path, message),
      compile: (subschema) => compile(subschema, createPlace(path)),
      count: () => subschemas,
      pattern
    }
  }

  function compile (subschema: unknown, place: Place): Check {
    if (place.path.length > SCHEMA_LIMITS.depth) throw place.error(`A schema has at most ${SCHEMA_LIMITS.depth} levels.`)
    if (++subschemas > SCHEMA_LIMITS.subschemas) throw place.error(`A schema has at most ${SCHEMA_LIMITS.subschemas} subschemas, including those repeated by $ref.`)
    if (subschema === true) return () => true
    if (subschema === false) return (value) => fail('false', value)
    if (!isFields(subschema)) throw place.error('Expected a schema: an object, true or false.')
    return join(compileKeywords(subschema, place).all)
  }

  function compileKeywords (subschema: Record<string, unknown>, place: Place): Checks {
    const checks: Check[] = []
    for (const [keyword, value] of Object.entries(subschema)) {
      const here = place.at(keyword)
      if (keyword === '$ref') checks.push(compileReference(value, here))
      else if (Object.hasOwn(KEYWORDS, keyword)) checks.push(...KEYWORDS[keyword]!(value, here))
      else if (keyword === '$schema') readDialect(value, here)
      else if (!ANNOTATIONS.has(keyword) && !OBJECT_KEYWORDS.has(keyword) && !WITH_IF.has(keyword)) throw here.error('This keyword is not supported.')
    }
    checks.push(...compileIf(subschema, place))
    const { all, each } = compileObject(subschema, place)
    return { all: [...checks, ...all], each: [...checks, ...each] }
  }

  function compileReference (value: unknown, place: Place): Check {
    const name = typeof value === 'string' ? /^#\/\$defs\/([^/~%]+)$/.exec(value)?.[1] : undefined
    const definition = name === undefined ? undefined : definitions.get(name)
    if (name === undefined || definition === undefined) throw place.error('A reference names a definition of this schema: #/$defs/name.')
    if (open.has(name)) throw place.error(`The definition ${name} refers to itself; a schema is not recursive.`)
    open.add(name)
    const check = place.compile(definition)
    open.delete(name)
    return check
  }
}

const WITH_IF = new Set(['if', 'then', 'else'])

const KEYWORDS: Readonly<Record<string, CompileKeyword>> = {
  ...VALUE_KEYWORDS,
  allOf: (value, place) => readSchemas(value, place),
  anyOf: (value, place) => {
    const checks = readSchemas(value, place)
    return [(tested) => checks.some((check) => check(tested)) || fail('anyOf', tested)]
  },
  oneOf: (value, place) => {
    const checks = readSchemas(value, place)
    return [(tested) => checks.filter((check) => check(tested)).length === 1 || fail('oneOf', tested)]
  },
  not: (value, place) => {
    const check = place.compile(value)
    return [(tested) => !check(tested) || fail('not', tested)]
  }
}

function compileIf (schema: Record<string, unknown>, place: Place): Check[] {
  const [condition, then, otherwise] = ['if', 'then', 'else'].map((keyword) =>
    schema[keyword] === undefined ? undefined : place.at(keyword).compile(schema[keyword]))
  if (condition === undefined) {
    if (then !== undefined || otherwise !== undefined) throw place.error('then and else need an if.')
    return []
  }
  return [(value) => condition(value) ? then?.(value) ?? true : otherwise?.(value) ?? true]
}

function readSchemas (value: unknown, place: Place): Check[] {
  if (!Array.isArray(value) || value.length === 0) throw place.error('Expected a list of at least one schema.')
  return value.map((schema, index) => place.at(String(index)).compile(schema))
}

function readDialect (value: unknown, place: Place): void {
  if (value !== DIALECT) throw place.error(`Schemas are those of ${DIALECT}.`)
}

function join (checks: readonly Check[]): Check {
  const [first, second] = checks
  if (first === undefined) return () => true
  if (second === undefined) return first
  if (checks.length === 2) return (value) => first(value) && second(value)
  return (value) => {
    for (const check of checks) if (!check(value)) return false
    return true
  }
}
