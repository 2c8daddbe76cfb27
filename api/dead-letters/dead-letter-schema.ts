import { pageQueryProperties } from '../http/pagination.ts'

const nullableText = { type: ['string', 'null'] }

const properties = {
  id: { type: 'integer' },
  stage: { type: 'string', description: 'Where it failed.' },
  reason: { type: 'string', description: 'Why, in a word.' },
  time: { type: 'string', format: 'date-time', description: 'When it was dead-lettered.' },
  error: { type: 'string', description: 'What the refusing side said.' },
  error_code: { ...nullableText, description: 'Code of that error, such as one of ClickHouse.' },
  event: { ...nullableText, description: 'Name of the event, when the letter is about one.' },
  uuid: { ...nullableText, description: 'Its uuid.' },
  rows: { type: ['integer', 'null'], description: 'Events in it; null when it holds something else.' }
} as const

export const deadLetterSchema = {
  $id: 'DeadLetter', type: 'object', required: Object.keys(properties), properties
} as const

export const openedDeadLetterSchema = {
  type: 'object',
  required: [...Object.keys(properties), 'headers', 'content', 'body_base64'],
  properties: {
    ...properties,
    headers: { type: 'object', additionalProperties: { type: 'string' } },
    content: { description: 'The body decoded: events, or JSON; null when it is neither.' },
    body_base64: { type: 'string', description: 'The body as it came.' }
  }
}

export const replayResultSchema = {
  type: 'object',
  required: ['matched', 'replayed', 'skipped'],
  properties: {
    matched: { type: 'integer', description: 'Letters that match.' },
    replayed: { type: 'integer', description: 'Letters that are in their stream again.' },
    skipped: { type: 'integer', description: 'Letters that do not tell where they came from; they stay.' }
  }
} as const

const filter = {
  stage: { type: 'string', enum: ['ingest', 'writer', 'persons'] },
  reason: { type: 'string', pattern: '^[a-z0-9_]{1,100}$' },
  event: { type: 'string', maxLength: 400, description: 'Only letters about this event.' },
  from: { type: 'string', format: 'date-time', description: 'Dead-lettered at or after.' },
  to: { type: 'string', format: 'date-time', description: 'Dead-lettered before.' }
} as const

export const listQuerySchema = { type: 'object', properties: { ...pageQueryProperties, ...filter } } as const

export const replayBodySchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    ...filter,
    limit: { type: 'integer', minimum: 1, maximum: 10_000, description: 'Letters at most. Default 1,000.' },
    dry_run: { type: 'boolean', description: 'Only count them.' }
  }
} as const

/** What a client asks for. */
export interface FilterFields {
  stage?: 'ingest' | 'writer' | 'persons'
  reason?: string
  event?: string
  from?: string
  to?: string
}

export interface ReplayFields extends FilterFields {
  limit?: number
  dry_run?: boolean
}
