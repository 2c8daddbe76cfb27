/** The JSON of a receipt, as the API answers it and the command line prints it. */
import { integer, object, optional, string, time, toSnakeCase } from '../../http/json-schema.ts'
import type { Receipt } from './find-receipt.ts'

const nullable = <T extends { type: string }>(schema: T, description: string): object => ({ ...schema, type: [schema.type, 'null'], description })
const process = nullable(string, 'Ingest process that received it; null when unknown.')

/** An object that is there with one fate only. */
function only (fate: string, properties: Record<string, object>): object {
  return object(properties, { type: ['object', 'null'], description: `With fate ${fate}, else null.` })
}

const place = object({
  where: { ...string, enum: ['spool', 'in_flight', 'stream'], description: 'Disk or memory of an ingest process, or unsearched messages of the stream.' },
  process: nullable(string, 'Ingest process; null for the stream.'),
  since: nullable(time, 'Time of the oldest event there; null if unknown.')
})

const stored = {
  event: string,
  distinct_id: string,
  timestamp: time,
  received_at: time,
  inserted_at: time,
  received_by: { type: 'array', items: string, description: 'Ingest processes that received the messages of the insert; one of them received the event.' },
  partition: nullable(string, 'Partition of the stream, such as live.0; null, like the next three fields, for events stored before this was recorded.'),
  first_sequence: nullable(integer, 'First stream sequence of the insert.'),
  last_sequence: nullable(integer, 'Last stream sequence of the insert.'),
  insert_token: nullable(string, 'Deduplication token of the insert: `insert_token` of the row.')
}

const duplicate = optional({ received_at: time, received_by: process, partition: string, sequence: integer })

const waiting = {
  event: string,
  distinct_id: string,
  timestamp: time,
  received_at: time,
  received_by: process,
  partition: string,
  sequence: { ...integer, description: 'Stream sequence of its message.' },
  published_at: { ...time, description: 'When the stream stored the message.' },
  messages_ahead: { ...integer, description: 'Messages ahead of it in its partition.' }
}

const deleted = {
  why: { ...string, enum: ['person', 'retention', 'unknown'], description: 'unknown: it was stored and has been deleted.' },
  asked_at: nullable(time, 'When the deletion of its person was requested.'),
  kept_since: nullable({ type: 'string', format: 'date' }, 'First day that retention keeps.'),
  was_stored: { type: ['boolean', 'null'], description: 'null: unknown, because retention would have removed it.' }
}

const searched = object({ messages: integer, of: integer }, { type: ['object', 'null'], description: 'With fate waiting or unknown: searched messages of the stream, and their total. Else null.' })

const properties = {
  uuid: { ...string, format: 'uuid' },
  fate: {
    ...string,
    enum: ['stored', 'dead_letter', 'waiting', 'dropped', 'deleted', 'unknown'],
    description: 'unknown: it was never acknowledged, its drop is no longer on record, or it is in one of `may_be_in`.'
  },
  stored: only('stored', stored),
  duplicates: only('stored', {
    count: { ...integer, description: 'Recorded duplicates in the last 30 days.' },
    last: { type: 'array', items: duplicate, description: 'At most five, newest first.' }
  }),
  dead_letter: only('dead_letter', {
    id: integer, event: nullable(string, 'Name of the event.'), stage: string, reason: string, time, error: string, sequence: nullable(integer, 'Stream sequence of its message.'), replayable: { type: 'boolean' }
  }),
  waiting: only('waiting', waiting),
  dropped: only('dropped', { reason: string, received_at: time, received_by: process }),
  deleted: only('deleted', deleted),
  may_be_in: { type: ['array', 'null'], items: place, description: 'With fate unknown: places not searched that may hold the event. Else null.' },
  searched
}

export const receiptSchema = object(properties, { $id: 'Receipt' })

export const receiptListSchema = object({ results: { type: 'array', items: { $ref: 'Receipt#' } }, searched: { ...searched, type: 'object' } }, { $id: 'ReceiptList' })

/** Of a row that says nothing about its insert. */
const NO_INSERT = { token: null, partition: null, firstSequence: null, lastSequence: null, receivedBy: [] }

/** A receipt as JSON. Every field is always there; those of other fates are null. Times are ISO 8601. */
export function describeReceipt (uuid: string, receipt: Receipt): object {
  const nothing = Object.fromEntries(Object.keys(properties).map((name) => [name, null]))
  const searched = 'searched' in receipt ? { messages: receipt.searched.searchedMessages, of: receipt.searched.of } : null
  return { ...nothing, uuid, fate: receipt.fate, searched, ...toSnakeCase(detailsOf(receipt)) }
}

function detailsOf (receipt: Receipt): object {
  switch (receipt.fate) {
    case 'stored': {
      const { insert, ...event } = receipt.stored
      const { token: insertToken, ...place } = insert ?? NO_INSERT
      return { stored: { ...event, ...place, insertToken }, duplicates: receipt.duplicates }
    }
    case 'dead_letter': return { deadLetter: { ...receipt.letter, replayable: receipt.letter.subject !== null } }
    case 'waiting': return { waiting: receipt.waiting }
    case 'dropped': return { dropped: receipt.dropped }
    case 'deleted': return { deleted: { ...receipt.deleted, wasStored: receipt.deleted.wasStored || null } }
    case 'unknown': return { mayBeIn: receipt.mayBeIn }
  }
}
