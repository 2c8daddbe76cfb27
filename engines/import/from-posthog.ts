/**
 * Batch exports of PostHog (https://posthog.com/docs/cdp/batch-exports/s3, read 2026-11-26): the model of events
 * (`uuid`, `event`, `distinct_id`, `properties`, `elements_chain`, `timestamp`) and the model of persons (`person_id`,
 * `distinct_id`, `properties`, `is_deleted`, `created_at`). In JSON Lines objects are nested, in Parquet and CSV they
 * are JSON texts.
 */
import { parseStoredJson } from '../body/parse-json.ts'
import { fieldsOf } from '../fields.ts'
import {
  checked, type ImportedEvent, type MapRow, readObject, readText, readTime, readUuid, requireObject, uuidOf
} from './imported-event.ts'

/** @param now  Epoch milliseconds. */
export function createPosthogMapper (now: number): MapRow {
  return (row, place) => {
    const fields = requireObject(row)
    return isPersonRow(fields)
      ? mapPerson(fields, now)
      : [mapEvent(fields, place, now)]
  }
}

/** Whether a row is one of the model of persons. */
export function isPersonRow (row: unknown): boolean {
  const { event, person_id: person } = fieldsOf(row)
  return event === undefined && person !== undefined
}

function mapEvent (fields: Record<string, unknown>, place: string, now: number): ImportedEvent {
  const properties = readObject(fields['properties'], 'properties', parseStoredJson)
  const chain = fields['elements_chain']
  return checked({
    uuid: readUuid(fields['uuid'], fields, place),
    event: readText(fields['event'], 'event'),
    distinct_id: readText(fields['distinct_id'], 'distinct_id'),
    timestamp: readTime(fields['timestamp'], 'timestamp', now),
    properties: typeof chain === 'string' && chain !== '' && properties['$elements_chain'] === undefined
      ? { ...properties, $elements_chain: chain }
      : properties
  })
}

/**
 * A row says that a distinct id belongs to a person. The person's own id is made a distinct id, too, with which all
 * others are merged: so the order of the rows does not matter, and nothing has to be remembered between them.
 */
function mapPerson (fields: Record<string, unknown>, now: number): ImportedEvent[] {
  if (fields['is_deleted'] === true || fields['is_deleted'] === 1 || fields['is_deleted'] === 'true') return []
  const person = readText(fields['person_id'], 'person_id')
  const alias = readText(fields['distinct_id'], 'distinct_id')
  const created = fields['created_at'] ?? fields['_inserted_at'] ?? now
  const timestamp = readTime(created, 'created_at', now)
  const $set = readObject(fields['properties'], 'properties', parseStoredJson)
  return [checked({
    uuid: uuidOf('person', person, alias, String(timestamp)),
    event: '$merge_dangerously',
    distinct_id: person,
    timestamp,
    properties: { alias, $set },
    isOfPerson: true
  })]
}
