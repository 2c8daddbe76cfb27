/** Output of every import source: events in the form of the capture routes, or the reason why a row was rejected. */
import { isExactNumber, numberText, parseStoredJson } from '../body/parse-json.ts'
import { isStorableText, toStorableText } from '../body/storable-text.ts'
import { stringifyJson } from '../body/stringify-json.ts'
import { isFields } from '../fields.ts'
import { EARLIEST_MS, MAX_FUTURE_MS, parseTimestamp } from '../parse-timestamp.ts'
import { createUuidV5, formatUuid, readUuid, textOfUuid } from '../uuid.ts'

/** An event of another product, ready to be sent. */
export interface ImportedEvent {
  /** Of the source, or made of what identifies the row there: the same in every run. */
  uuid: string
  event: string
  distinct_id: string
  /** Epoch milliseconds. */
  timestamp: number
  properties: Record<string, unknown>
  /** The properties as they are sent and stored. */
  json: string
  /** It is no event of the source: it says what the source knows of a person. */
  isOfPerson?: true
  /** What the source knew of its person then, when events are to say so. */
  personProperties?: Record<string, unknown>
  /** A text or number of it cannot be stored as it is: U+FFFD, null or the digits as a text are stored instead. */
  isAltered?: true
}

const PERSON_EVENTS = new Set(['$identify', '$create_alias', '$merge_dangerously'])

/** Whether an event changes a group, or a person if it may, so that it must not be overtaken by others that do. */
export function isOrdered ({ event, properties }: ImportedEvent, mayChangePersons: boolean): boolean {
  if (event === '$groupidentify') return true
  const { $set, $set_once: $setOnce, $unset } = properties
  return mayChangePersons && (PERSON_EVENTS.has(event) || ($set ?? $setOnce ?? $unset) !== undefined)
}

/** What the rows of a source are read for. */
export interface ImportTarget {
  project: number
  /** Epoch milliseconds. */
  now: number
}

/** State of the rows read so far. */
export interface RowsBefore {
  /** Counts an event without an id, by its time and the uuid of its content. @returns 1 for the first in the file. */
  count: (uuid: string, timestamp: number) => number
  /** Notes the columns of a row that are not among those that its source reads. */
  noteColumns: (fields: Record<string, unknown>, read: ReadonlySet<string>) => void
}

/**
 * Turns a row of a source into the events to send: none for what the source has no event for, such as a deleted
 * person.
 *
 * @param row  As a file has it.
 * @throws {RejectedRowError} when the row is no event.
 */
export type MapRow = (row: unknown, before: RowsBefore) => ImportedEvent[]

/** A row that cannot be imported. Its message names the field. */
export class RejectedRowError extends Error {}

/** Bytes of a name or an id that are stored (docs/reference/contract/sdks.md 1.5). */
const MAX_TEXT = 200

/** @throws {RejectedRowError} */
export function requireObject (row: unknown, what = 'the row'): Record<string, unknown> {
  if (isFields(row)) return row
  throw new RejectedRowError(`${what} is not an object`)
}

/** Reads an object that some formats hold as its JSON text; none is an empty one. @throws {RejectedRowError} */
export function readObject (value: unknown, field: string): Record<string, unknown> {
  if (value === undefined || value === null || value === '') return {}
  if (typeof value !== 'string') return requireObject(value, field)
  let parsed: unknown
  try {
    parsed = parseStoredJson(value)
  } catch {
    throw new RejectedRowError(`${field} is not JSON`)
  }
  return parsed === null ? {} : requireObject(parsed, field)
}

/** @throws {RejectedRowError} when it is missing, blank, or no text or number. */
export function readText (value: unknown, field: string): string {
  const text = typeof value === 'number' || isExactNumber(value) ? numberText(value) : value
  if (typeof text === 'string' && text.trim() !== '') return text
  throw new RejectedRowError(text === undefined || text === null || text === '' ? `${field} is missing` : `${field} is not a text`)
}

/**
 * Reads a time as capture does (`parseTimestamp`).
 *
 * @returns epoch milliseconds.
 * @throws {RejectedRowError} also for a time that capture would replace.
 */
export function readTime (value: unknown, field: string, now: number): number {
  const time = value instanceof Date ? value.getTime() : parseTimestamp(value)
  if (time === null || Number.isNaN(time)) throw new RejectedRowError(`${field} is not a time`)
  if (time < EARLIEST_MS) throw new RejectedRowError(`${field} is before 2000`)
  if (time > now + MAX_FUTURE_MS) throw new RejectedRowError(`${field} is in the future`)
  return Math.floor(time)
}

const NAMESPACE = Buffer.from('6f0e5f0c9a1d5c6b8a7f2b1f4d3e2c10', 'hex')

/** A uuid of parts that identify a row. */
export function uuidOf (...parts: readonly string[]): string {
  return textOfUuid(createUuidV5(NAMESPACE, JSON.stringify(parts)))
}

/** The usual text of one: no nil uuid, which stands for none. */
const UUID = /^(?!0{8}-0{4}-0{4}-0{4}-0{12})[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/

/** The uuid under which capture stores an event with this one; null if it is invalid. */
function readSentUuid (value: unknown, project: number): string | null {
  if (typeof value === 'string' && UUID.test(value)) return value
  const words = readUuid(value, project)
  return words === null ? null : formatUuid(words)
}

/**
 * The uuid of an event without an id: that of its content, and of its number among equal ones of the file. So equal
 * rows are as many events, and the rows of a file that overlaps are the same ones.
 *
 * @param uuid  Of its content.
 */
export function numberUuid (uuid: string, timestamp: number, before: RowsBefore): string {
  const number = before.count(uuid, timestamp)
  return number === 1 ? uuid : uuidOf(uuid, String(number))
}

/** Checks an event, and gives it the uuid of its row. @param sent  The id that the row has, if any. */
export function withUuid (
  event: Omit<UncheckedEvent, 'uuid'>, sent: unknown, project: number, before: RowsBefore
): ImportedEvent {
  const uuid = readSentUuid(sent, project)
  const ready = checked({ ...event, uuid: uuid ?? '' })
  const { event: name, distinct_id: id, timestamp, json } = ready
  if (uuid === null) ready.uuid = numberUuid(uuidOf('row', name, id, String(timestamp), json), timestamp, before)
  return ready
}

/** Pairs that are remembered at a time; one that comes again later is sent again, and stored once. */
const REMEMBERED = 200_000

/**
 * @returns a function that says, once a day, that two ids are of one person: as an event of the day on which a source
 *   showed them together. None when one of them is missing.
 */
export function createIdentify (): (userId: unknown, deviceId: unknown, timestamp: number) => ImportedEvent[] {
  const known = new Set<string>()
  return (userId, deviceId, timestamp) => {
    if (typeof userId !== 'string' || userId === '' || typeof deviceId !== 'string' || deviceId === '') return []
    const day = Math.floor(timestamp / 86_400_000) * 86_400_000
    const pair = JSON.stringify([day, userId, deviceId])
    if (known.has(pair)) return []
    if (known.size === REMEMBERED) known.clear()
    known.add(pair)
    const uuid = uuidOf('identify', userId, deviceId, String(day))
    return [checked({ uuid, event: '$identify', distinct_id: userId, timestamp: day, properties: { $anon_distinct_id: deviceId } })]
  }
}

/** Bytes of properties that a request has room for: ingest takes bodies of less than 20 MB. */
const MAX_PROPERTIES = 19_990_000

/** An event whose texts and numbers were not looked at. */
export type UncheckedEvent = Omit<ImportedEvent, 'json' | 'isAltered'>

/**
 * The event as it will be stored.
 *
 * @throws {RejectedRowError} for a name or an id that ingest would cut, and properties that no request has room for.
 */
export function checked (event: UncheckedEvent): ImportedEvent {
  for (const field of ['event', 'distinct_id'] as const) {
    if (event[field].length > MAX_TEXT) throw new RejectedRowError(`${field} has more than ${MAX_TEXT} characters`)
  }
  const { event: name, distinct_id: id, properties } = event
  const json = stringifyJson(properties)
  // A unit of UTF-16 takes three bytes at most.
  if (3 * json.length > MAX_PROPERTIES && Buffer.byteLength(json) > MAX_PROPERTIES) {
    throw new RejectedRowError(`properties have more than ${MAX_PROPERTIES} bytes, which no request has room for`)
  }
  // What has no form in JSON is one of these there.
  const isAltered = !isStorableText(name) || !isStorableText(id) || (mayLackForm(json) && !hasForm(properties))
  if (!isAltered) return { ...event, json }
  return { ...event, json, event: toStorableText(name), distinct_id: toStorableText(id), isAltered }
}

const mayLackForm = (json: string): boolean =>
  json.includes('null') || json.includes('\ufffd') || /"-?\d{19,}"/.test(json)

/** Whether all names, texts and numbers of an object have a form in JSON, at any depth. */
function hasForm (properties: object): boolean {
  const todo = [properties]
  for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
    if (isExactNumber(at) ? !hasNumberForm(at) : !Object.keys(at).every((name) => name.isWellFormed())) return false
    for (const value of Object.values(at) as unknown[]) {
      if (typeof value === 'object' && value !== null) todo.push(value)
      else if (typeof value === 'string' ? !value.isWellFormed() : typeof value === 'number' && !hasNumberForm(value)) return false
    }
  }
  return true
}

/** Written as its digits: neither as null nor as a text. */
const hasNumberForm = (number: unknown): boolean =>
  (typeof number === 'number' && Math.abs(number) < 1e18) || /^[-\d]/.test(stringifyJson(number))
