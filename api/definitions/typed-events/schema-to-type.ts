/** JSON Schemas of events as types of TypeScript. */

type Schema = Readonly<Record<string, unknown>>

/** What may still be written: subschemas, those that `$ref` repeats included, and values. What is beyond is `any`. */
export interface TypeBudget {
  left: number
}

/** Deeper ones are `any`. */
const MAX_DEPTH = 20

const NAMES: ReadonlyMap<unknown, string> = new Map([
  ['string', 'string'], ['number', 'number'], ['integer', 'number'], ['boolean', 'boolean'], ['null', 'null']
])

/**
 * Every object of TypeScript has these, so that a type with an optional one of another type would refuse `{}`.
 */
const INHERITED = new Set(Object.getOwnPropertyNames(Object.prototype))

/** A property of a type of TypeScript. */
export interface TypedProperty {
  name: string
  /** Text of its type. */
  type: string
  isRequired: boolean
}

/**
 * Writes the type of the properties of an event: whatever meets the schema is assignable to it. What a type cannot say
 * (lengths, patterns, ranges, `not`, `if`) is left to ingest.
 *
 * @param schema  One that `compileSchema` takes. Other values give wide types, and never an error.
 */
export function schemaToType (schema: unknown, budget: TypeBudget): string {
  if (!isSchema(schema)) return OPEN
  const definitions = isSchema(schema.$defs) ? schema.$defs : {}
  return typeOfObject(schema, 0)

  function typeOf (value: unknown, depth: number): string {
    if (--budget.left < 0 || depth > MAX_DEPTH) return 'any'
    if (value === false) return 'never'
    if (!isSchema(value)) return 'any'
    return intersect([typeOfKeywords(value, depth), ...combined(value, depth, typeOf)])
  }

  function typeOfKeywords (schema: Schema, depth: number): string {
    if (Array.isArray(schema.enum)) {
      budget.left -= schema.enum.length
      return budget.left < 0 ? 'any' : unite(schema.enum.map(literal))
    }
    if (schema.const !== undefined) return literal(schema.const)
    const names = typeof schema.type === 'string' ? [schema.type] : schema.type
    // Without a type, any other value meets the keywords of texts, objects and arrays, too.
    if (!Array.isArray(names)) return 'any'
    return unite(names.map((name) => {
      if (name === 'object') return typeOfProperties(schema, depth)
      if (name === 'array') return `readonly (${schema.items === undefined ? 'any' : typeOf(schema.items, depth + 1)})[]`
      // SDKs send a Date as such a text.
      if (name === 'string' && schema.format === 'date-time') return 'string | Date'
      return NAMES.get(name) ?? 'any'
    }))
  }

  /** Of a schema whose value is an object in any case. */
  function typeOfObject (value: unknown, depth: number): string {
    if (--budget.left < 0 || depth > MAX_DEPTH) return OPEN
    if (value === false) return 'never'
    if (!isSchema(value)) return OPEN
    return intersect([typeOfProperties(value, depth), ...combined(value, depth, typeOfObject)])
  }

  function typeOfProperties (schema: Schema, depth: number): string {
    const properties = isSchema(schema.properties) ? schema.properties : {}
    const required = new Set(Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [])
    const names = [...new Set([...Object.keys(properties), ...required])]
    return objectType(names.map((name) => ({
      name,
      type: Object.hasOwn(properties, name) ? typeOf(properties[name], depth + 1) : 'any',
      isRequired: required.has(name)
    })), othersOf(schema))
  }

  /** The schemas that a value must meet besides, as types. */
  function combined (schema: Schema, depth: number, read: (value: unknown, depth: number) => string): string[] {
    const each = (list: unknown): string[] => Array.isArray(list) ? list.map((one) => read(one, depth + 1)) : []
    const anyOf = each(schema.anyOf)
    const oneOf = each(schema.oneOf)
    return [
      ...each(schema.allOf),
      ...anyOf.length > 0 ? [unite(anyOf)] : [],
      ...oneOf.length > 0 ? [unite(oneOf)] : [],
      ...typeof schema.$ref === 'string' ? [read(resolve(schema.$ref), depth + 1)] : []
    ]
  }

  function resolve (reference: string): unknown {
    const name = /^#\/\$defs\/([^/]+)$/.exec(reference)?.[1]?.replaceAll('~1', '/').replaceAll('~0', '~')
    return name !== undefined && Object.hasOwn(definitions, name) ? definitions[name] : true
  }
}

/** What properties an object may have besides those that are named. */
type Others = 'any' | 'internal' | 'none'

const OPEN = '{ [key: string]: any }'

/** Writes an object type. Names may be any text. */
export function objectType (properties: readonly TypedProperty[], others: Others = 'any'): string {
  const members = properties.map(({ name, type, isRequired }) => isRequired
    ? `${quote(name)}: ${type}`
    : `${quote(name)}?: ${INHERITED.has(name) || type === 'any' ? 'any' : `${type} | undefined`}`)
  if (others === 'any') members.push('[key: string]: any')
  // eslint-disable-next-line no-template-curly-in-string -- it is the text of a template type
  if (others === 'internal') members.push('[key: `$${string}`]: any')
  return members.length === 0 ? '{ [key: string]: never }' : `{ ${members.join('; ')} }`
}

/** A literal that stays on its line whatever is in it. */
export function quote (text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (character) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function literal (value: unknown): string {
  if (typeof value === 'string') return quote(value)
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value)
  return typeof value === 'boolean' || value === null ? String(value) : 'any'
}

/** Patterns cannot be said in a type, but for the one of internal properties (`$lib`), which SDKs add. */
function othersOf ({ additionalProperties, patternProperties }: Schema): Others {
  if (additionalProperties !== false) return 'any'
  if (!isSchema(patternProperties)) return 'none'
  const patterns = Object.keys(patternProperties)
  if (patterns.length === 0) return 'none'
  return patterns.every((pattern) => pattern === '^\\$') ? 'internal' : 'any'
}

function intersect (types: readonly string[]): string {
  const narrow = [...new Set(types)].filter((type) => type !== 'any')
  const [only = 'any'] = narrow
  return narrow.length <= 1 ? only : narrow.map((type) => `(${type})`).join(' & ')
}

function unite (types: readonly string[]): string {
  if (types.includes('any')) return 'any'
  return types.length === 0 ? 'never' : [...new Set(types)].join(' | ')
}

function isSchema (value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
