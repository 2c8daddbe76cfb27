/**
 * Batch exports of PostHog (https://posthog.com/docs/cdp/batch-exports/s3, read 2026-11-26): the model of events
 * (`uuid`, `event`, `distinct_id`, `properties`, `elements_chain`, `timestamp`) and the model of persons (`person_id`,
 * `distinct_id`, `properties`, `person_version`, `is_deleted`, `created_at`). In JSON Lines objects are nested, in
 * Parquet and CSV they are JSON texts.
 */
import { stringifyJson } from '../body/stringify-json.ts'
import {
  checked, type ImportedEvent, type ImportTarget, type MapRow, readObject, readText, readTime, RejectedRowError,
  requireObject, type RowsBefore, uuidOf, withUuid
} from './imported-event.ts'

export interface PosthogTarget extends ImportTarget {
  personsFrom: 'events' | 'export'
}

const READ_OF_EVENTS = [
  'uuid', 'event', 'distinct_id', 'timestamp', 'properties', 'elements_chain', 'set', 'set_once'
]
const READ_OF_PERSONS = new Set([
  'person_id', 'distinct_id', 'properties', 'person_version', 'is_deleted', 'is_identified', 'created_at', '_inserted_at'
])

export function createPosthogMapper (target: PosthogTarget): MapRow {
  const readsPersons = target.personsFrom === 'events'
  const readOfEvents = new Set([...READ_OF_EVENTS, ...readsPersons ? ['person_properties'] : []])
  return (row, before) => {
    const fields = requireObject(row)
    const isOfPersons = fields['event'] === undefined && fields['person_id'] !== undefined
    before.noteColumns(fields, isOfPersons ? READ_OF_PERSONS : readOfEvents)
    if (isOfPersons) return mapPerson(fields, target)
    const event = mapEvent(fields, before, target)
    const personProperties = readsPersons ? readObject(fields['person_properties'], 'person_properties') : {}
    if (Object.keys(personProperties).length > 0) event.personProperties = personProperties
    return [event]
  }
}

/** @throws {RejectedRowError} naming the columns that a file lacks: once, and not row by row or never. */
export function requireColumns (columns: readonly string[]): void {
  const required = columns.includes('event') || !columns.includes('person_id')
    ? ['event', 'distinct_id', 'timestamp', 'properties']
    : ['distinct_id', 'properties', columns.includes('_inserted_at') ? '_inserted_at' : 'created_at']
  const missing = required.filter((column) => !columns.includes(column))
  if (missing.length > 0) throw new RejectedRowError(`no column ${missing.join(' and ')}; columns: ${columns.join(', ')}`)
}

function mapEvent (fields: Record<string, unknown>, before: RowsBefore, { project, now }: ImportTarget): ImportedEvent {
  const properties = readObject(fields['properties'], 'properties')
  const chain = fields['elements_chain']
  const [set, setOnce] = [readObject(fields['set'], 'set'), readObject(fields['set_once'], 'set_once')]
  return withUuid({
    event: readText(fields['event'], 'event'),
    distinct_id: readText(fields['distinct_id'], 'distinct_id'),
    timestamp: readTime(fields['timestamp'], 'timestamp', now),
    properties: {
      ...properties,
      ...typeof chain === 'string' && chain !== '' && properties['$elements_chain'] === undefined && { $elements_chain: chain },
      ...Object.keys(set).length > 0 && properties['$set'] === undefined && { $set: set },
      ...Object.keys(setOnce).length > 0 && properties['$set_once'] === undefined && { $set_once: setOnce }
    }
  }, fields['uuid'], project, before)
}

/**
 * A row assigns a distinct id to a person. The person's own id becomes a distinct id, too, and all others are merged
 * into it: so the rows need no order, and nothing is remembered between them.
 *
 * Batch exports do not say who is identified. PostHog identifies a person by merging distinct ids and in no other way
 * (`mergeDistinctIds` in its `person-merge-service.ts`, read 2026-11-26), so a person with a single one is anonymous:
 * the first row of a person leaves it so, and a row with another distinct id identifies it.
 */
function mapPerson (fields: Record<string, unknown>, { now }: ImportTarget): ImportedEvent[] {
  if (isTrue(fields['is_deleted'])) return []
  const person = readText(fields['person_id'], 'person_id')
  const alias = readText(fields['distinct_id'], 'distinct_id')
  const timestamp = readTime(fields['created_at'] ?? fields['_inserted_at'], 'created_at', now)
  const $set = readObject(fields['properties'], 'properties')
  return [checked({
    // An export that continues has a row for each version of a person.
    uuid: uuidOf('person', person, alias, String(timestamp), String(fields['person_version'] ?? stringifyJson($set))),
    event: '$merge_dangerously',
    distinct_id: person,
    timestamp,
    properties: { alias, $set, ...!isTrue(fields['is_identified']) && { $mark_identified: false } },
    isOfPerson: true
  })]
}

/** In CSV it is a text, and in some formats a number. */
const isTrue = (value: unknown): boolean => value === true || /^(?:1|true)$/i.test(String(value))
