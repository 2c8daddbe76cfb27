import { count, object, type Value } from '../../http/json-schema.ts'

const text = (description: string) => ({ type: 'string', description }) as const

const liveEventSchema = object({
  at: { type: 'number', description: 'When it was received, epoch milliseconds.' },
  event: text('As stored, or as sent if dropped. Like the other texts, empty if unknown.'),
  distinctId: { type: 'string' },
  uuid: { type: 'string' },
  lib: { type: 'string' },
  libVersion: { type: 'string' },
  drop: { type: ['string', 'null'], description: 'Why the event was dropped or its request refused; null if stored or quarantined.' },
  isQuarantined: { type: 'boolean', description: 'true: it violates its schema and is a dead letter.' },
  value: text('The value at fault when it was not stored, at most 200 characters.'),
  sent: text('The stored event as JSON that sends it again; empty when it was not stored or is too long.'),
  sentCharacters: count('Characters of the properties when sent is empty because of them; else 0.')
})

export const feedBatchSchema = object({
  connected: { type: 'boolean', description: 'false: ClickHouse is unavailable, so stored events cannot be shown.' },
  matched: count('Matching events since the feed began.'),
  shown: count('Matching events sent to the client; the rest exceeded what the feed or the client reads.'),
  events: { type: 'array', items: liveEventSchema }
}, { $id: 'FeedBatch' })

export type LiveEvent = Value<typeof liveEventSchema>

export type FeedBatch = Value<typeof feedBatchSchema>
