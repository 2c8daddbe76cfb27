/** The JSON of a receipt, as the API answers it and the command line prints it (`receipt-schema.ts`). */
import type { Duplicates } from './read-traces.ts'
import type { Receipt } from './find-receipt.ts'
import type { WaitingEvent } from './search-stream.ts'
import type { StoredEvent } from './stored-events.ts'

/** A receipt as JSON. Every field is always there; those of other fates are null. Times are ISO 8601. */
export interface ReceiptJson {
  uuid: string
  fate: Receipt['fate']
  stored: Record<string, unknown> | null
  duplicates: Record<string, unknown> | null
  dead_letter: Record<string, unknown> | null
  waiting: Record<string, unknown> | null
  dropped: Record<string, unknown> | null
  deleted: Record<string, unknown> | null
  may_be_in: Record<string, unknown>[] | null
  searched: { messages: number, of: number } | null
}

export function describeReceipt (uuid: string, receipt: Receipt): ReceiptJson {
  const json: ReceiptJson = {
    uuid, fate: receipt.fate, stored: null, duplicates: null, dead_letter: null, waiting: null, dropped: null,
    deleted: null, may_be_in: null, searched: null
  }
  if ('searched' in receipt) json.searched = { messages: receipt.searched.searchedMessages, of: receipt.searched.of }
  switch (receipt.fate) {
    case 'stored':
      return { ...json, stored: describeStored(receipt.stored), duplicates: describeDuplicates(receipt.duplicates) }
    case 'dead_letter': {
      const { id, event, stage, reason, time, error, subject, sequence } = receipt.letter
      return { ...json, dead_letter: { id, event, stage, reason, time, error, sequence, replayable: subject !== null } }
    }
    case 'waiting': return { ...json, waiting: describeWaiting(receipt.waiting) }
    case 'dropped': {
      const { reason, receivedAt, receivedBy } = receipt.dropped
      return { ...json, dropped: { reason, received_at: receivedAt, received_by: receivedBy } }
    }
    case 'deleted': {
      const { why, askedAt, keptSince } = receipt.deleted
      const wasStored = receipt.deleted.wasStored ? true : null
      return { ...json, deleted: { why, asked_at: askedAt, kept_since: keptSince, was_stored: wasStored } }
    }
    case 'unknown': return { ...json, may_be_in: receipt.mayBeIn.map((place) => ({ ...place })) }
  }
}

function describeWaiting ({
  event, distinctId, timestamp, receivedAt, receivedBy, partition, sequence, publishedAt, messagesAhead
}: WaitingEvent): Record<string, unknown> {
  return {
    event, distinct_id: distinctId, timestamp, received_at: receivedAt, received_by: receivedBy, partition, sequence,
    published_at: publishedAt, messages_ahead: messagesAhead
  }
}

function describeStored (
  { event, distinctId, timestamp, receivedAt, insertedAt, insert }: StoredEvent
): Record<string, unknown> {
  return {
    event, distinct_id: distinctId, timestamp, received_at: receivedAt, inserted_at: insertedAt,
    received_by: insert?.receivedBy ?? [],
    partition: insert?.partition ?? null,
    first_sequence: insert?.firstSequence ?? null,
    last_sequence: insert?.lastSequence ?? null,
    insert_token: insert?.token ?? null
  }
}

function describeDuplicates ({ count, last }: Duplicates): Record<string, unknown> {
  return {
    count,
    last: last.map(({ receivedAt, receivedBy, partition, sequence }) =>
      ({ received_at: receivedAt, received_by: receivedBy, partition, sequence }))
  }
}
