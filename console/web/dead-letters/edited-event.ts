import { fieldsOf } from '../../../engines/fields.ts'
import { readJson } from '../drafts/json-text.ts'
import type { OpenedDeadLetter } from './dead-letters.ts'

/** The stages whose dead letters are rows of events. */
const WITH_ROWS = ['schema', 'writer']

/** A row of events, as a dead letter shows it. */
interface Row {
  event?: unknown
  distinct_id?: unknown
  timestamp?: unknown
  uuid?: unknown
  properties?: unknown
  ip?: unknown
}

/**
 * The JSON of a new event made of a dead letter, to be changed by hand: with a uuid of its own, and its origin.
 * The properties stay the text that they are, so that no number loses a digit.
 *
 * @returns null for a letter that is not one event.
 */
export function draftEvent (letter: Pick<OpenedDeadLetter, 'id' | 'content' | 'stage'>, uuid: string): string | null {
  const hasRows = WITH_ROWS.includes(letter.stage) && Array.isArray(letter.content)
  const [row, ...others] = hasRows ? letter.content as Row[] : []
  if (row === undefined || others.length > 0 || typeof row.properties !== 'string' || !row.properties.startsWith('{')) return null
  const origin = `"$dead_letter_id": ${letter.id}, "$dead_letter_uuid": ${JSON.stringify(row.uuid)}${addressOf(row)}`
  const rest = row.properties.slice(1)
  return `{
  "event": ${JSON.stringify(row.event)},
  "distinct_id": ${JSON.stringify(row.distinct_id)},
  "timestamp": ${JSON.stringify(row.timestamp)},
  "uuid": ${JSON.stringify(uuid)},
  "properties": {${origin}${/^\s*\}/.test(rest) ? '' : ', '}${rest}
}`
}

/** The address that was stored, where the properties name none: it is that of the client. */
function addressOf ({ ip, properties }: Row): string {
  if (typeof ip !== 'string' || ip === '') return ''
  const read = readJson(properties as string)
  if (read.error !== undefined || Object.hasOwn(fieldsOf(read.value), '$ip')) return ''
  return `, "$ip": ${JSON.stringify(ip)}`
}

/** A random uuid (version 4). Pages without TLS have no `crypto.randomUUID`. */
export function makeUuid (): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`
}
