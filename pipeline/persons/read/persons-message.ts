import { parseStoredJson } from '../../../platform/http-body/exact-number.ts'
import { splitJsonArray } from '../../../platform/http-body/split-json-array.ts'
import { cleanStrings, mayNeedCleaning } from '../../../platform/identity/stored-text.ts'
import { type PersonsUpdate } from '../../../schema/persons-update.ts'
import { checkUpdate } from './check-update.ts'
import { type RefusedUpdate } from '../persons-outcome.ts'

/** A message of PERSONS, read. */
export interface PersonsMessage {
  sequence: number
  /** When the stream stored it, in microseconds. */
  publishedUs: number
  updates: PersonsUpdate[]
  refused: RefusedUpdate[]
}

/**
 * Reads the payload of a message. Never throws: what is no update is refused by itself, its neighbours are read.
 */
export function readPersonsMessage (
  payload: Uint8Array, origin: { sequence: number, publishedUs: number }
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
  if (mayNeedCleaning(text)) items = cleanStrings(items)
  for (const [i, item] of (items as unknown[]).entries()) {
    const problem = checkUpdate(item)
    if (problem === null) message.updates.push(item as PersonsUpdate)
    else message.refused.push({ reason: 'invalid_update', detail: problem, payload: cutItem(payload, i) })
  }
  return message
}

/** An item as it came, in a message of its own. Not by `JSON.stringify`: it may be nested too deep for that. */
function cutItem (payload: Uint8Array, i: number): Uint8Array {
  const ranges = splitJsonArray(payload, '').ranges ?? []
  return Buffer.concat([Buffer.from('['), payload.subarray(ranges[i * 2], ranges[i * 2 + 1]), Buffer.from(']')])
}

/** What the parser says quotes the text; its position is enough. */
function describe (error: unknown): string {
  const position = /position (\d+)/.exec(String(error))?.[1]
  return position === undefined ? 'the message is not JSON' : `the message is not JSON at position ${position}`
}
