import { isExactNumber, parseStoredJson } from '../../engines/body/parse-json.ts'
import { isDeeperThan, MAX_PROPERTY_DEPTH } from '../../engines/body/property-depth.ts'
import { splitJsonArray } from '../../engines/body/split-json-array.ts'
import { MAX_GROUP_KEY_LENGTH } from '../../schema/wire/identity.ts'
import { mayHoldUnstorableText, toStorableJson } from '../../engines/body/storable-text.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import type { RefusedUpdate } from './persons-outcome.ts'

/** A decoded message of the stream PERSONS. */
export interface PersonsMessage {
  sequence: number
  /** When the stream stored it, in microseconds. */
  publishedUs: number
  updates: PersonsUpdate[]
  refused: RefusedUpdate[]
}

/** Messages of one partition, in the order of the stream. */
export interface PersonsBatch {
  partition: number
  /** Creation time of the stream, as the server reports it. */
  streamCreated: string
  messages: readonly PersonsMessage[]
}

/** Ingest truncates ids to their limits in characters; in UTF-16 units no id is longer than this. */
const MAX_ID_LENGTH = 2 * MAX_GROUP_KEY_LENGTH

const MAX_PROJECT_ID = 2_147_483_647

/** Latest time that ClickHouse can store, epoch milliseconds; the earliest is 0. */
const LATEST = Date.UTC(2299, 0)

type Fields = Record<string, unknown>

/**
 * Decodes the payload of a message. Never throws: each item that is not an update is refused, all others are read.
 *
 * @param receivedAt  Of a replayed letter.
 */
export function readPersonsMessage (
  payload: Uint8Array, origin: { sequence: number, publishedUs: number }, receivedAt?: number
): PersonsMessage {
  const message: PersonsMessage = { ...origin, updates: [], refused: [] }
  let items: unknown
  const text = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength).toString()
  try {
    items = parseStoredJson(text)
  } catch (error) {
    message.refused.push({ reason: 'invalid_json', detail: describe(error), payload })
    return message
  }
  if (!Array.isArray(items)) {
    message.refused.push({ reason: 'invalid_json', detail: 'the message is not an array of updates', payload })
    return message
  }
  // Postgres stores neither NUL nor lone surrogates.
  if (mayHoldUnstorableText(text)) items = toStorableJson(items)
  // Split once, and only when an item is refused: that takes as long as parsing the message.
  let ranges: readonly number[] | null = null
  for (const [i, item] of (items as unknown[]).entries()) {
    const problem = checkUpdate(item)
    if (problem === null) {
      const update = item as PersonsUpdate
      // A letter that was refused again has the first time. Of merges only: other changes are as of the replay.
      if (receivedAt !== undefined && update.kind === 'merge') update.receivedAt ??= receivedAt
      message.updates.push(update)
      continue
    }
    ranges ??= splitJsonArray(payload, '').ranges ?? []
    message.refused.push({ reason: 'invalid_update', detail: problem, payload: sliceItem(payload, ranges, i), ...originOf(item) })
  }
  return message
}

/** The bytes of one item as a message of its own. Not by `JSON.stringify`: it may be nested too deep for that. */
function sliceItem (payload: Uint8Array, ranges: readonly number[], i: number): Uint8Array {
  return Buffer.concat([Buffer.from('['), payload.subarray(ranges[i * 2], ranges[i * 2 + 1]), Buffer.from(']')])
}

/** The parser's message quotes the payload, which must not be logged: keep only the position. */
function describe (error: unknown): string {
  const position = /position (\d+)/.exec(String(error))?.[1]
  return position === undefined ? 'the message is not JSON' : `the message is not JSON at position ${position}`
}

/** Project and uuid of an item that is no update, as far as it names them. */
function originOf (item: unknown): Pick<RefusedUpdate, 'projectId' | 'uuid'> {
  if (!isObject(item) || checkOrigin(item) !== null) return {}
  return { projectId: Number(item.projectId), uuid: String(item.uuid) }
}

/** What makes a value not a `PersonsUpdate`, in one sentence; null when it is one. */
function checkUpdate (value: unknown): string | null {
  if (!isObject(value)) return 'an update must be an object'
  return checkOrigin(value) ?? checkKind(value)
}

function checkKind (update: Fields): string | null {
  switch (update.kind) {
    case 'person':
      return checkId(update, 'distinctId') ?? checkProperties(update)
    case 'merge':
      return checkId(update, 'distinctId') ?? checkString(update, 'otherDistinctId') ?? checkHow(update) ??
        checkProperties(update)
    case 'group':
      return checkId(update, 'groupType') ?? checkId(update, 'groupKey') ??
        (isObject(update.set) ? checkDepth(update.set) : 'set must be an object')
    case 'groupType':
      return checkId(update, 'groupType')
    default:
      return 'kind must be person, merge, group or groupType'
  }
}

function checkOrigin ({ projectId, uuid, timestamp }: Fields): string | null {
  const isProject = typeof projectId === 'number' && Number.isInteger(projectId) && projectId >= 1 && projectId <= MAX_PROJECT_ID
  if (!isProject) return 'projectId must be a positive integer'
  if (typeof uuid !== 'string') return 'uuid must be a string'
  const isTime = typeof timestamp === 'number' && timestamp >= 0 && timestamp <= LATEST
  return isTime ? null : 'timestamp must be in epoch milliseconds, from 1970 to 2299'
}

function checkId (update: Fields, field: string): string | null {
  return update[field] === '' ? `${field} must not be empty` : checkString(update, field)
}

/** An empty `otherDistinctId` passes: a merge refuses it as an illegal id and counts it. */
function checkString (update: Fields, field: string): string | null {
  const value = update[field]
  if (typeof value !== 'string') return `${field} must be a string`
  return value.length > MAX_ID_LENGTH ? `${field} must have at most ${MAX_ID_LENGTH} characters` : null
}

function checkHow ({ how }: Fields): string | null {
  return how === 'identify' || how === 'alias' || how === 'force' ? null : 'how must be identify, alias or force'
}

function checkProperties ({ set, setOnce, unset }: Fields): string | null {
  if (set !== undefined && !isObject(set)) return 'set must be an object'
  if (setOnce !== undefined && !isObject(setOnce)) return 'setOnce must be an object'
  const isList = unset === undefined || (Array.isArray(unset) && unset.every((name) => typeof name === 'string'))
  return isList ? checkDepth(set) ?? checkDepth(setOnce) : 'unset must be an array of names'
}

function checkDepth (properties: Fields | undefined): string | null {
  // Ingest lets none through; a message may be of an earlier version.
  return isDeeperThan(properties, MAX_PROPERTY_DEPTH + 1) ? `properties must not be nested deeper than ${MAX_PROPERTY_DEPTH} levels` : null
}

function isObject (value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value)
}
