import { DEAD_LETTER_STAGES } from '../../../schema/wire/streams.ts'
import { cursorQueryProperties } from '../../http/list-queries.ts'
import { pageQueryProperties } from '../../http/pagination.ts'
import { object, optional, type Value } from '../../http/json-schema.ts'

const nullableText = { type: ['string', 'null'] } as const

const properties = {
  id: { type: 'integer' },
  stage: { type: 'string', description: 'Stage that failed.' },
  reason: { type: 'string', description: 'Why it failed, as a code.' },
  time: { type: 'string', format: 'date-time', description: 'When it was dead-lettered.' },
  error: { type: 'string', description: 'Message of the error.' },
  error_code: { ...nullableText, description: 'Code of the error, such as that of ClickHouse.' },
  project: { type: ['integer', 'null'], description: 'Id of its project; null when the dead letter is about several, or about none.' },
  event: { ...nullableText, description: 'Name of the event; null when the dead letter is not about one event.' },
  uuid: { ...nullableText, description: 'Uuid of that event.' },
  rows: { type: ['integer', 'null'], description: 'Number of events in it; null when it has other content.' }
} as const

export const deadLetterSchema = object(properties, { $id: 'DeadLetter' })

export const openedDeadLetterSchema = object({
  ...properties,
  headers: { type: 'object', additionalProperties: { type: 'string' } },
  content: { description: 'The decoded body: events or JSON; null when it is neither.' },
  body_base64: { type: 'string', description: 'The original body.' }
})

export const replayResultSchema = object({
  matched: { type: 'integer', description: 'Dead letters that match.' },
  replayed: { type: 'integer', description: 'Dead letters that were published to their stream again.' },
  skipped: { type: 'integer', description: 'Dead letters of unknown origin, which are kept.' }
})

const filter = {
  stage: { type: 'string', enum: DEAD_LETTER_STAGES },
  reason: { type: 'string', pattern: '^[a-z0-9_]{1,100}$' },
  event: { type: 'string', maxLength: 400, description: 'Only dead letters about this event; empty: those that are not about one event.' },
  error_code: { type: 'string', maxLength: 100, description: 'Only those with this code of the error; empty: those without one.' },
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
  error: { type: 'string', description: 'Message of the error of the newest.' },
  by_hour: { type: 'array', items: { type: 'integer' }, description: 'Dead letters of each of the last 24 hours, oldest hour first.' }
} as const

export const deadLetterGroupsSchema = object({
  count: { type: 'integer', description: 'Dead letters that match.' },
  ungrouped: { type: 'integer', description: 'Those in none of the groups: there are more than 500, of which these are the largest.' },
  results: { type: 'array', items: object(group) }
})

export type DeadLetterGroups = Value<typeof deadLetterGroupsSchema>

const limit = { type: 'integer', minimum: 1, maximum: 10_000 } as const

export const replayBodySchema = optional({
  ...filter,
  limit: { ...limit, description: 'Maximum number of dead letters; default 1,000.' },
  dry_run: { type: 'boolean', description: 'Only count them, without a replay.' }
}, { additionalProperties: false })

export const purgeBodySchema = optional({
  ...filter,
  limit: {
    ...limit, description: 'Maximum number of dead letters, oldest first; required without dry_run. Give what the dry run counted: what came later stays.'
  },
  dry_run: { type: 'boolean', description: 'Only count them.' }
}, { additionalProperties: false })

export const purgeResultSchema = object({
  matched: { type: 'integer', description: 'Dead letters that match, up to the limit.' },
  purged: { type: 'integer', description: 'Dead letters that were deleted.' }
})

/** Filters of a request. */
export type FilterFields = Value<{ type: 'object', properties: typeof filter }>
