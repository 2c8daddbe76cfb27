import { SCHEMA_MODES, type SchemaMode } from '../../../platform/directory/active-schemas.ts'
import { type UserSummary, userSummarySchema } from '../../projects/users.ts'
import { baseVersionSchema, type VersionedKind } from '../versioned-definitions.ts'

/** An event schema as answers show it. */
export interface EventSchema {
  id: number
  team_id: number
  event: string
  description: string
  owner: string
  mode: SchemaMode
  schema: unknown
  version: number
  first_version: number
  active_version: number | null
  created_by: UserSummary | null
  created_at: Date
  updated_at: Date
}

/** A version as answers show it. */
export interface EventSchemaVersion {
  version: number
  schema: unknown
  created_by: UserSummary | null
  created_at: Date
}

const schema = {
  type: 'object',
  additionalProperties: true,
  description: 'JSON Schema (2020-12) of the properties of the event; the keywords are those of docs/schemas.md.'
} as const

const writable = {
  description: { type: 'string', maxLength: 3000, description: 'What the event is for.' },
  owner: { type: 'string', maxLength: 400, description: 'Who is asked about it: a person or a team.' },
  mode: {
    type: 'string',
    enum: SCHEMA_MODES,
    description: 'What becomes of events that do not meet the active version: observe stores and counts them, quarantine ' +
      'dead-letters them, reject drops and counts them.'
  },
  schema,
  active_version: {
    type: ['integer', 'null'], minimum: 1, maximum: 2_147_483_647, description: 'Version that is enforced; null: none.'
  }
} as const

/** At most 500 a project, listed by event. */
export const EVENT_SCHEMAS: VersionedKind<EventSchema, EventSchemaVersion> = {
  noun: 'schema',
  table: 'event_schemas',
  versionsTable: 'event_schema_versions',
  parentColumn: 'schema_id',
  contentColumn: 'schema',
  nameColumn: 'event',
  order: [{ column: 'd.event COLLATE "C"', field: 'event', kind: 'text' }],
  definitionColumns: 'd.event, d.description, d.owner, d.mode',
  contentColumns: 'v.schema',
  writable: Object.keys(writable)
}

const event = {
  type: 'string', minLength: 1, maxLength: 200, description: 'Name of the event; each has one schema. Cannot be changed.'
} as const

const createdBy = userSummarySchema
const dateTime = { type: 'string', format: 'date-time' } as const

const readOnly = {
  id: { type: 'integer' },
  team_id: { type: 'integer', description: 'Id of the project.' },
  version: { type: 'integer', description: 'Newest version; every change of the schema makes one.' },
  first_version: {
    type: 'integer', description: 'First version of this schema. Those before are of deleted schemas of the same event.'
  },
  created_by: createdBy,
  created_at: dateTime,
  updated_at: dateTime
} as const

export type EventSchemaFields = Partial<Pick<EventSchema, keyof typeof writable>>

/** Fields to change, the newest version when the change was begun, and the event, which stays. */
export type EventSchemaChange = EventSchemaFields & { version?: number, event?: unknown }

export type NewEventSchema = EventSchemaFields & Pick<EventSchema, 'event' | 'schema'>

const order = [
  'id', 'team_id', 'event', 'description', 'owner', 'mode', 'schema', 'version', 'first_version', 'active_version', 'created_by',
  'created_at', 'updated_at'
] as const

const properties: Record<string, object> = { event, ...writable, ...readOnly }

export const eventSchemaSchema = {
  $id: 'EventSchema',
  type: 'object',
  required: order,
  properties: Object.fromEntries(order.map((name) => [name, properties[name]]))
}

export const versionSchema = {
  type: 'object',
  required: ['version', 'schema', 'created_by', 'created_at'],
  properties: { version: { type: 'integer' }, schema, created_by: createdBy, created_at: dateTime }
} as const

/** What a check of stored events takes. */
export interface CheckFields {
  schema?: unknown
  days?: number
  limit?: number
}

export const checkBodySchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    schema: { ...schema, description: 'A draft; default: the newest version.' },
    days: { type: 'integer', minimum: 1, maximum: 365, description: 'Days before now, by the timestamp of the events; default 7.' },
    limit: { type: 'integer', minimum: 1, maximum: 100_000_000, description: 'Events at most, newest day first; default 1,000,000.' }
  }
} as const

/** What making a draft takes. */
export interface InferFields {
  event: string
  days?: number
  limit?: number
  include_sdk?: boolean
}

export const inferBodySchema = {
  type: 'object',
  additionalProperties: false,
  required: ['event'],
  properties: {
    event: { type: 'string', minLength: 1, maxLength: 200, description: 'Name of the event.' },
    days: { type: 'integer', minimum: 1, maximum: 365, description: 'Days before now, by the timestamp of the events; default 30.' },
    limit: { type: 'integer', minimum: 1, maximum: 1_000_000, description: 'About how many events are read at most, the same ones each time; default 100,000.' },
    include_sdk: { type: 'boolean', description: 'Also describe properties whose names begin with $. Default: false.' }
  }
} as const

const count = { type: 'integer' } as const
const text = { type: 'string' } as const

function listOf (properties: Record<string, object>): object {
  return { type: 'array', items: { type: 'object', required: Object.keys(properties), properties } }
}

export const predictionSchema = {
  type: 'object',
  required: ['events', 'met', 'failed', 'complete', 'failures', 'libs'],
  properties: {
    events: { ...count, description: 'Events that were checked.' },
    met: { ...count, description: 'Those that meet the schema.' },
    failed: { ...count, description: 'Those that do not.' },
    complete: { type: 'boolean', description: 'false: there are more events than the limit.' },
    failures: {
      ...listOf({ path: text, keyword: text, events: count, samples: listOf({ uuid: text, value: text }) }),
      description: 'By place and keyword, most events first; an event with several failures counts under each.'
    },
    libs: { ...listOf({ lib: text, lib_version: text, events: count, failed: count }), description: 'By SDK, most failed events first.' }
  }
}

const counted = {
  schema: { ...count, description: 'Id of the schema.' },
  checked: { ...count, description: 'Events that ingest held against it.' },
  kept: { ...count, description: 'Of them, those that did not meet it, and were stored.' },
  quarantined: { ...count, description: 'Those that did not meet it, and were dead-lettered.' },
  rejected: { ...count, description: 'Those that did not meet it, and were dropped.' }
} as const

export const schemaCountsSchema = {
  type: 'object',
  required: ['results'],
  properties: { results: { ...listOf(counted), description: 'Schemas that no event was held against are missing.' } }
} as const

export const inferredSchema = {
  type: 'object',
  required: ['schema', 'events', 'stored', 'properties'],
  properties: {
    schema: { ...schema, description: 'A draft that every event which was read meets. Nothing is stored.' },
    events: { ...count, description: 'Events that were read.' },
    stored: { ...count, description: 'Events of the days; more than were read when a sample of them was.' },
    properties: {
      ...listOf({ name: text, events: count, types: { type: 'array', items: text } }), description: 'Most events first.'
    }
  }
}

/** Clients may send back a whole schema: read-only fields are accepted and ignored. */
const body = {
  type: 'object',
  additionalProperties: false,
  properties: { ...writable, ...Object.fromEntries(Object.keys(readOnly).map((name) => [name, { readOnly: true }])) }
}

export const newEventSchemaSchema = { ...body, properties: { ...body.properties, event }, required: ['event', 'schema'] }

export const eventSchemaChangesSchema = {
  ...body, properties: { ...body.properties, event: { readOnly: true }, version: baseVersionSchema }
}
