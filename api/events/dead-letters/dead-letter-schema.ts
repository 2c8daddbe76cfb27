import { DEAD_LETTER_STAGES } from '../../../schema/wire/streams.ts'
import { cursorQueryProperties } from '../../http/list-queries.ts'
import { pageQueryProperties } from '../../http/pagination.ts'
import { object, optional, type Value } from '../../http/json-schema.ts'

const nullableText = { type: ['string', 'null'] } as const

const properties = {
  id: { type: 'integer' },
  stage: { type: 'string', description: 'Stage that failed.' },
  reason: { type: 'string', description: 'Machine-readable reason.' },
  time: { type: 'string', format: 'date-time', description: 'When it was dead-lettered.' },
  error: { type: 'string', description: 'Error message.' },
  error_code: { ...nullableText, description: 'Error code, for example from ClickHouse.' },
  project: { type: ['integer', 'null'], description: 'Project id; null if the dead letter belongs to several projects or to none.' },
  event: { ...nullableText, description: 'Event name; null unless the dead letter holds exactly one event.' },
  uuid: { ...nullableText, description: 'UUID of that event.' },
  rows: { type: ['integer', 'null'], description: 'Number of events in it; null if the content is something else.' }
} as const

export const deadLetterSchema = object(properties, { $id: 'DeadLetter' })

export const openedDeadLetterSchema = object({
  ...properties,
  headers: { type: 'object', additionalProperties: { type: 'string' } },
  content: { description: 'The decoded body: events or JSON; null if it is neither.' },
  body_base64: { type: 'string', description: 'The original body.' }
})

export const replayResultSchema = object({
  matched: { type: 'integer', description: 'Dead letters that match.' },
  replayed: { type: 'integer', description: 'Dead letters published to their stream again.' },
  skipped: { type: 'integer', description: 'Dead letters kept because their origin is unknown.' }
})

const filter = {
  stage: { type: 'string', enum: DEAD_LETTER_STAGES },
  reason: { type: 'string', pattern: '^[a-z0-9_]{1,100}$' },
  event: { type: 'string', maxLength: 400, description: 'Only dead letters of this event; empty: only those that do not hold exactly one event.' },
  error_code: { type: 'string', maxLength: 100, description: 'Only dead letters with this error code; empty: only those without one.' },
  from: { type: 'string', format: 'date-time', description: 'Dead-lettered at or after.' },
  to: { type: 'string', format: 'date-time', description: 'Dead-lettered before.' }
} as const

export const listQuerySchema = { type: 'object', properties: { ...pageQueryProperties, ...filter, ...cursorQueryProperties } } as const

export const groupsQuerySchema = { type: 'object', properties: filter } as const

const group = {
  stage: properties.stage,
  reason: properties.reason,
  error_code: properties.error_code,
  project: properties.project,
  event: properties.event,
  count: { type: 'integer', description: 'Dead letters in the group.' },
  first: { type: 'string', format: 'date-time', description: 'When the oldest was dead-lettered.' },
  last: { type: 'string', format: 'date-time', description: 'When the newest was dead-lettered.' },
  error: { type: 'string', description: 'Error message of the newest dead letter.' },
  by_hour: { type: 'array', items: { type: 'integer' }, description: 'Dead letters per hour over the last 24 hours, oldest first.' }
} as const

export const deadLetterGroupsSchema = object({
  count: { type: 'integer', description: 'Dead letters that match.' },
  ungrouped: { type: 'integer', description: 'Dead letters outside the 500 largest groups.' },
  results: { type: 'array', items: object(group) }
})

export type DeadLetterGroups = Value<typeof deadLetterGroupsSchema>

const limit = { type: 'integer', minimum: 1, maximum: 10_000 } as const

export const replayBodySchema = optional({
  ...filter,
  limit: { ...limit, description: 'Maximum number of dead letters; default 1,000.' },
  dry_run: { type: 'boolean', description: 'Count only, without a replay.' }
}, { additionalProperties: false })

export const purgeBodySchema = optional({
  ...filter,
  limit: {
    ...limit, description: 'Maximum number of dead letters, oldest first; required without dry_run. Pass the count of the dry run to keep dead letters that arrived since.'
  },
  dry_run: { type: 'boolean', description: 'Count only.' }
}, { additionalProperties: false })

export const purgeResultSchema = object({
  matched: { type: 'integer', description: 'Dead letters that match, up to the limit.' },
  purged: { type: 'integer', description: 'Deleted dead letters.' }
})

export type FilterFields = Value<{ type: 'object', properties: typeof filter }>
