import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { readTypedEvents, type TypedEvent } from './read-typed-events.ts'
import { buildTypescriptModule, TYPED_SDKS, type TypedSdk, TYPESCRIPT_GENERATOR_VERSION } from './typescript-module.ts'
import { object } from '../../http/json-schema.ts'
import { stringifyJson } from '../../../engines/body/stringify-json.ts'

const read = { scope: 'event_definition:read' } as const
const tags = ['event definitions']

/** What `posthog-cli schema pull` reads. */
interface GeneratedDefinitions {
  /** Text of the file. */
  content: string
  event_count: number
  schema_hash: string
  generator_version: string
  complete: boolean
}

const answerSchema = object({
  content: { type: 'string', description: 'Text of the file.' },
  event_count: { type: 'integer', description: 'Events in the file.' },
  schema_hash: { type: 'string', description: 'Of the content: as long as it is the same, the file is up to date.' },
  generator_version: { type: 'string' },
  complete: {
    type: 'boolean',
    description: 'false: the project has more than 2,000 events, or an event without schema more than 100 properties; those that are left out may be sent with any properties.'
  }
})

const typescriptQuery = {
  type: 'object',
  properties: {
    sdk: { type: 'string', enum: TYPED_SDKS, default: 'posthog-js', description: 'The SDK that the module adds types to.' }
  }
} as const

/** Typed events (docs/change/typed-events.md), beside the event definitions that they are made of. */
export async function typedEventRoutes (app: FastifyInstance, { sql }: { sql: Sql }): Promise<void> {
  app.get<{ Querystring: { sdk: TypedSdk } }>('/typescript', {
    config: read,
    schema: {
      tags, summary: 'Generate the types of all events for TypeScript', querystring: typescriptQuery, response: { 200: answerSchema },
      description: 'What `posthog-cli schema pull` stores: one module, generated from active schemas and observed properties.'
    }
  }, async (request) => await generate(accessOf(request).projectId, TYPESCRIPT_GENERATOR_VERSION, (events) =>
    buildTypescriptModule(events, request.query.sdk)))

  app.get('/json', {
    config: read,
    schema: {
      tags, summary: 'Describe the types of all events as JSON, for generators of other languages', response: { 200: answerSchema },
      description: 'The content is a JSON array of events: name, description, properties (name, type, required), schema_version and schema.'
    }
  }, async (request) => await generate(accessOf(request).projectId, JSON_GENERATOR_VERSION, buildJsonDefinitions))

  async function generate (
    projectId: number, version: string, build: (events: readonly TypedEvent[]) => string
  ): Promise<GeneratedDefinitions> {
    const { events, isComplete } = await readTypedEvents(sql, projectId)
    const content = build(events)
    return {
      content,
      event_count: events.length,
      schema_hash: hash('sha256', content).slice(0, 32),
      generator_version: version,
      complete: isComplete
    }
  }
}

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
