import { FATES } from '../../../schema/wire/live-feed.ts'

const count = (description: string) => ({ type: 'integer', description }) as const
const text = (description: string) => ({ type: 'string', description }) as const

/** An event as it arrived, in the answer of a feed. */
const arrivedEventSchema = {
  type: 'object',
  required: ['number', 'at', 'event', 'distinctId', 'uuid', 'lib', 'libVersion', 'key', 'drop', 'isQuarantined', 'sent', 'sentCharacters'],
  properties: {
    number: count('Names the event in fates.'),
    at: { type: 'number', description: 'When it was received, epoch milliseconds.' },
    event: text('As stored; as sent when it was dropped.'),
    distinctId: { type: 'string' },
    uuid: { type: 'string' },
    lib: { type: 'string' },
    libVersion: { type: 'string' },
    key: text('First characters of the key it was sent with.'),
    drop: { type: ['string', 'null'], description: 'Why it was dropped; null when it was accepted.' },
    isQuarantined: { type: 'boolean', description: 'It does not conform to its schema and went to the dead letters.' },
    sent: text('Its JSON as sent, cut when it is long.'),
    sentCharacters: count('Characters of sent before it was cut; 0 when it is whole.')
  }
} as const

/** What a feed sends at a time. */
export const feedBatchSchema = {
  $id: 'FeedBatch',
  type: 'object',
  required: ['connected', 'matched', 'shown', 'events', 'fates'],
  properties: {
    connected: { type: 'boolean', description: 'False while NATS is unavailable: nothing can be seen then.' },
    matched: count('Matching events that arrived since the feed began.'),
    shown: count('Those of them that were sent; the rest exceeded what the client reads.'),
    events: { type: 'array', items: arrivedEventSchema },
    fates: {
      type: 'array',
      items: {
        type: 'object',
        required: ['number', 'fate', 'at'],
        properties: {
          number: { type: 'integer' },
          fate: { type: 'string', enum: [...FATES] },
          at: { type: 'number', description: 'When it was known, epoch milliseconds.' }
        }
      }
    }
  }
} as const
