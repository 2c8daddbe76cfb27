import { invalidField, DefinitionError } from '../../../engines/errors.ts'
import { SCHEMA_MODES, type SchemaMode } from '../../../schema/schema-modes.ts'
import { type CompiledSchema, compileSchema } from '../../../engines/json-schema/compile-schema.ts'
import { toEventName } from '../../../schema/wire/identity.ts'
import { type DefinitionKind, describeCheck, describeFields, listOf } from '../definition-kind.ts'
import { bodyOf, integer, object, type Row, string, type Value } from '../../http/json-schema.ts'

const schema = {
  type: 'object',
  additionalProperties: true,
  description: "JSON Schema (2020-12) of the event's properties. Supported keywords: docs/change/rules-and-schemas.md."
} as const

export const SCHEMA_FIELDS = describeFields({
  $id: 'EventSchema',
  noun: 'schema',
  makesVersion: 'every change of the schema makes one',
  name: {
    event: {
      type: 'string', minLength: 1, maxLength: 200, description: 'Event name; one schema per name. Cannot be changed.'
    }
  },
  own: {
    description: { type: 'string', maxLength: 3000, description: 'Purpose of the event.' },
    owner: { type: 'string', maxLength: 400, description: 'Contact person or team.' },
    mode: {
      type: 'string',
      enum: SCHEMA_MODES,
      description: 'Action on events that violate the active version: observe stores and counts them, quarantine ' +
        'dead-letters them, reject drops and counts them.'
    }
  },
  content: { schema },
  required: ['event', 'schema']
})

type EventSchema = Row<typeof SCHEMA_FIELDS.definition>

export const EVENT_SCHEMAS: DefinitionKind<EventSchema, Row<typeof SCHEMA_FIELDS.version>, unknown> = {
  noun: 'schema',
  tag: 'event schemas',
  one: 'an event schema',
  table: 'event_schemas',
  versionsTable: 'event_schema_versions',
  parentColumn: 'schema_id',
  contentColumn: 'schema',
  nameColumn: 'event',
  ofName: 'of this event',
  order: [{ column: 'd.event COLLATE "C"', kind: 'text' }],
  columns: ['description', 'owner', 'mode'],
  defaults: async () => await Promise.resolve({ description: '', owner: '', mode: 'observe' satisfies SchemaMode }),
  contentColumns: 'v.schema',
  writable: SCHEMA_FIELDS.writable,
  limit: 500,
  checkName: (event) => {
    if (toEventName(event) !== event) throw invalidField('event', 'No event has this name: names are cut to 200 characters.', 'invalid')
  },
  readContent: (fields) => fields.schema,
  compile: compileDraft
}

/**
 * Compiles a schema of a request.
 *
 * @throws {HttpError} 400 naming the place in `attr`, such as `schema__properties__plan__pattern`.
 */
export function compileDraft (draft: unknown): CompiledSchema {
  try {
    return compileSchema(draft)
  } catch (error) {
    if (!(error instanceof DefinitionError)) throw error
    throw invalidField(['schema', ...error.path].join('__'), error.message, 'invalid_schema')
  }
}

export const SCHEMA_CHECK_LIMIT = 1_000_000

export const checkBodySchema = describeCheck({ schema: { ...schema, description: 'A draft; default: the newest version.' } }, SCHEMA_CHECK_LIMIT)

export const inferBodySchema = bodyOf({
  event: { type: 'string', minLength: 1, maxLength: 200, description: 'Name of the event.' },
  days: { type: 'integer', minimum: 1, maximum: 365, description: 'Days before now, by the timestamp of the events; default 30.' },
  limit: { type: 'integer', minimum: 1, maximum: 1_000_000, description: 'Maximum number of events to read; default 100,000.' },
  include_sdk: { type: 'boolean', description: 'Also describe properties whose names begin with $. Default: false.' }
}, 'event')

export const predictionSchema = object({
  events: { ...integer, description: 'Number of checked events.' },
  met: { ...integer, description: 'Events that conform to the schema.' },
  failed: { ...integer, description: 'Events that violate it.' },
  complete: { type: 'boolean', description: 'false: there are more events than the limit.' },
  failures: {
    ...listOf({ path: string, keyword: string, events: integer, samples: listOf({ uuid: string, value: string }) }),
    description: 'By place and keyword, most events first; an event with several failures counts under each.'
  },
  libs: { ...listOf({ lib: string, lib_version: string, events: integer, failed: integer }), description: 'By SDK, most failed events first.' }
})

/** What a schema would have done with stored events; exact for the events that were checked. */
export type SchemaPrediction = Value<typeof predictionSchema>

const counted = {
  schema: { ...integer, description: 'Id of the schema.' },
  checked: { ...integer, description: 'Events checked by ingest.' },
  kept: { ...integer, description: 'Violating events that were stored.' },
  quarantined: { ...integer, description: 'Violating events that were dead-lettered.' },
  rejected: { ...integer, description: 'Violating events that were dropped.' }
} as const

export const schemaCountsSchema = object({ results: { ...listOf(counted), description: 'Schemas with no checked events are omitted.' } })

export const inferredSchema = object({
  schema: { ...schema, description: 'A draft that every read event conforms to. Stores nothing.' },
  events: { ...integer, description: 'Number of events read.' },
  properties: {
    ...listOf({ name: string, events: integer, types: { type: 'array', items: string } }), description: 'Most events first.'
  }
})

/** A draft of a schema, which every event it was made from meets, and what it was made from. */
export type InferredSchema = Value<typeof inferredSchema>
