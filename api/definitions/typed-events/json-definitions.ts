import { stringifyJson } from '../../../engines/body/stringify-json.ts'
import type { TypedEvent } from './read-typed-events.ts'

/** Raised when the form of the document changes. */
export const JSON_GENERATOR_VERSION = '1.0.0'

type Schema = Readonly<Record<string, unknown>>

/** The types that generators of other languages read; null: it may be any. */
type PropertyKind = 'String' | 'Numeric' | 'Boolean' | 'DateTime' | 'Array' | 'Object'

const KIND_OF = new Map<unknown, PropertyKind>(Object.entries({
  string: 'String', number: 'Numeric', integer: 'Numeric', boolean: 'Boolean', array: 'Array', object: 'Object'
}))

/**
 * Writes the events as a JSON array, for generators of other languages: name, description, properties with type and
 * whether they are required, and the schema itself with its version. The same events give the same text.
 */
export function buildJsonDefinitions (events: readonly TypedEvent[]): string {
  return stringifyJson(events.map(({ name, description, schema, version, seen }) => ({
    name,
    description: description === '' ? null : description,
    properties: version === null
      ? seen.map(({ name, type }) => ({ name, type, required: false }))
      : propertiesOf(schema),
    schema_version: version,
    schema
  })))
}

/** The properties that the top of a schema names, in order of their names. */
function propertiesOf (schema: unknown): { name: string, type: PropertyKind | null, required: boolean }[] {
  const { properties, required: names } = isSchema(schema) ? schema : {}
  const known = isSchema(properties) ? properties : {}
  const required = new Set(Array.isArray(names) ? names.filter((name) => typeof name === 'string') : [])
  return [...new Set([...Object.keys(known), ...required])].sort().map((name) => ({
    name, type: Object.hasOwn(known, name) ? kindOf(known[name]) : null, required: required.has(name)
  }))
}

function kindOf (property: unknown): PropertyKind | null {
  if (!isSchema(property)) return null
  const types = (typeof property.type === 'string' ? [property.type] : property.type) ?? typesOfValues(property)
  if (!Array.isArray(types)) return null
  const kinds = new Set(types.filter((type) => type !== 'null').map((type) => KIND_OF.get(type)))
  const [kind] = kinds
  if (kinds.size !== 1 || kind === undefined) return null
  return kind === 'String' && property.format === 'date-time' ? 'DateTime' : kind
}

function typesOfValues ({ enum: values, const: value }: Schema): unknown {
  const all = Array.isArray(values) ? values : value === undefined ? [] : [value]
  return all.map((one) => one === null ? 'null' : typeof one)
}

function isSchema (value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
