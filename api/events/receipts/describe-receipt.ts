/** The JSON of a receipt, as the API answers it and the command line prints it. */
import type { DeadLetter } from '../../../schema/wire/dead-letter-message.ts'
import { array, integer, nullableObject, object, optional, string, time, type Value } from '../../http/json-schema.ts'

const nullable = <const S extends { type: string }>(schema: S, description: string): Omit<S, 'type'> & { type: [S['type'], 'null'], description: string } =>
  ({ ...schema, type: [schema.type, 'null'], description })
const process = nullable(string, 'Ingest process that received it; null when unknown.')

const onlyWith = (fate: string): string => `With fate ${fate}, else null.`

const place = object({
  where: { type: 'string', enum: ['spool', 'in_flight', 'stream'], description: 'Disk or memory of an ingest process, or unsearched messages of the stream.' },
  process: nullable(string, 'Ingest process; null for the stream.'),
  since: nullable(time, 'Time of the oldest event there; null if unknown.')
})

const stored = nullableObject({
  event: string,
  distinct_id: string,
  timestamp: time,
  received_at: time,
  inserted_at: time,
  received_by: { ...array(string), description: 'Ingest processes that received the messages of the insert; one of them received the event.' },
  partition: nullable(string, 'Partition of the stream, such as live.0; null, like the next three fields, for events stored before this was recorded.'),
  first_sequence: nullable(integer, 'First stream sequence of the insert.'),
  last_sequence: nullable(integer, 'Last stream sequence of the insert.'),
  insert_token: nullable(string, 'Deduplication token of the insert: `insert_token` of the row.')
}, onlyWith('stored'))

const duplicate = optional({ received_at: time, received_by: process, partition: string, sequence: integer })

const waiting = nullableObject({
  event: string,
  distinct_id: string,
  timestamp: time,
  received_at: time,
  received_by: process,
  partition: string,
  sequence: { ...integer, description: 'Stream sequence of its message.' },
  published_at: { ...time, description: 'When the stream stored the message.' },
  messages_ahead: { ...integer, description: 'Messages ahead of it in its partition.' }
}, onlyWith('waiting'))

const deleted = nullableObject({
  why: { type: 'string', enum: ['person', 'retention', 'unknown'], description: 'unknown: it was stored and has been deleted.' },
  asked_at: nullable(time, 'When the deletion of its person was requested.'),
  kept_since: nullable({ type: 'string', format: 'date' }, 'First day that retention keeps.'),
  was_stored: { type: ['boolean', 'null'], description: 'null: unknown, because retention would have removed it.' }
}, onlyWith('deleted'))

const searched = nullableObject({ messages: integer, of: integer }, 'With fate waiting or unknown: searched messages of the stream, and their total. Else null.')

const properties = {
  uuid: { ...string, format: 'uuid' },
  fate: {
    type: 'string',
    enum: ['stored', 'dead_letter', 'waiting', 'dropped', 'deleted', 'unknown'],
    description: 'unknown: it was never acknowledged, its drop is no longer on record, or it is in one of `may_be_in`.'
  },
  stored,
  duplicates: nullableObject({
    count: { ...integer, description: 'Recorded duplicates in the last 30 days.' },
    last: { ...array(duplicate), description: 'At most five, newest first.' }
  }, onlyWith('stored')),
  dead_letter: nullableObject({
    id: integer, event: nullable(string, 'Name of the event.'), stage: string, reason: string, time, error: string, sequence: nullable(integer, 'Stream sequence of its message.'), replayable: { type: 'boolean' }
  }, onlyWith('dead_letter')),
  waiting,
  dropped: nullableObject({ reason: string, received_at: time, received_by: process }, onlyWith('dropped')),
  deleted,
  may_be_in: { type: ['array', 'null'], items: place, description: 'With fate unknown: places not searched that may hold the event. Else null.' },
  searched
} as const

export const receiptSchema = object(properties, { $id: 'Receipt' })

export const receiptListSchema = object({ results: array({ $ref: 'Receipt#' }), searched: { ...searched, type: 'object' } }, { $id: 'ReceiptList' })

/** Every field is always there; those of other fates are null. Times are ISO 8601. */
export type Receipt = Value<typeof receiptSchema>

/** A part of a receipt, with the uuid of its event. */
export type Found<Fate extends 'stored' | 'waiting' | 'dropped'> = { uuid: string } & NonNullable<Receipt[Fate]>

const NOTHING = {
  stored: null, duplicates: null, dead_letter: null, waiting: null, dropped: null, deleted: null, may_be_in: null,
  searched: null
}

export function makeReceipt (uuid: string, fate: Receipt['fate'], found: Partial<Receipt>): Receipt {
  return { uuid, fate, ...NOTHING, ...found }
}

export function receiptOfLetter (uuid: string, letter: DeadLetter): Receipt {
  return makeReceipt(uuid, 'dead_letter', { dead_letter: { ...letter, replayable: letter.subject !== null } })
}
