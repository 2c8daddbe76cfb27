import { isIP } from 'node:net'
import { HttpError } from '../../platform/errors.ts'
import { type Project } from '../../platform/keys/read-keys.ts'
import { parseTimestamp } from '../normalise/timestamps.ts'

type Fields = Readonly<Record<string, unknown>>

/** What a request says besides its events. */
export interface Envelope {
  /** The key, trimmed; empty when there is none. */
  apiKey: string
  /** Project named for a personal key, as sent. */
  projectId: unknown
  /** When the SDK says it sent the request, epoch milliseconds. */
  sentAt: number | null
  /** An import rather than events as they happen. */
  historical: boolean
}

/** Times of a query before 2021 are no times (docs/contract/sdks.md 1.5). */
const EARLIEST_SENT_AT_MS = 1_609_459_200_000

/**
 * Finds the events in the forms SDKs use: one event, an array of events, or `{ api_key, batch, sent_at }`.
 *
 * @returns the events, and the fields beside them (none beside an array).
 * @throws {HttpError} 400 when the body has none of these forms.
 */
export function findEvents (body: unknown): { events: unknown[], fields: Fields } {
  if (Array.isArray(body)) return { events: body, fields: {} }
  if (typeof body !== 'object' || body === null) {
    throw new HttpError(400, 'validation_error', 'invalid_body', 'The body must be an event, an array of events, or an object with a batch.')
  }
  const fields = body as Record<string, unknown>
  if (!isBatch(fields)) return { events: [body], fields }
  if (!Array.isArray(fields.batch)) throw invalidBatch()
  return { events: fields.batch, fields }
}

/** An object with a batch, which is no event that happens to have a field of that name. */
export function isBatch (fields: Fields): boolean {
  return fields.batch !== undefined && !('event' in fields)
}

export function invalidBatch (): HttpError {
  return new HttpError(400, 'validation_error', 'invalid_batch', 'batch must be an array of events.', { attr: 'batch' })
}

/**
 * Reads key, project and time of sending from the fields beside the events, from the events and from the query.
 *
 * @throws {HttpError} 401 when the events carry different keys.
 */
export function readEnvelope (fields: Fields, events: readonly unknown[], query: Fields): Envelope {
  const ownKey = toKey(fields.api_key) || toKey(fields.token)
  return {
    apiKey: ownKey || keyOfEvents(events) || toKey(query.api_key) || toKey(query.token),
    projectId: fields.project_id ?? query.project_id ?? fieldsOf(events[0])?.project_id,
    sentAt: readSentAt(fields.sent_at, query),
    historical: fields.historical_migration === true
  }
}

/**
 * The key that the events themselves carry; empty when none does.
 *
 * @throws {HttpError} 401 when they carry different ones, or another than `expected`.
 */
export function keyOfEvents (events: readonly unknown[], expected = ''): string {
  let found = expected
  for (const event of events) {
    const key = keyOfEvent(event)
    if (key === '' || key === found) continue
    if (found !== '') {
      throw new HttpError(401, 'authentication_error', 'invalid_api_key', 'The events of one request must carry the same key.')
    }
    found = key
  }
  return found
}

/** Under `/engage`, an object without an event name is an `$identify`. */
export function nameIdentify (event: unknown): unknown {
  const fields = fieldsOf(event)
  return fields !== undefined && !('event' in fields) ? { ...fields, event: '$identify' } : event
}

function keyOfEvent (event: unknown): string {
  const fields = fieldsOf(event)
  if (fields === undefined) return ''
  const { token, $token, api_key: apiKey, properties } = fields
  return toKey(token) || toKey($token) || toKey(apiKey) || toKey(fieldsOf(properties)?.token)
}

function fieldsOf (value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Fields : undefined
}

function toKey (value: unknown): string {
  return typeof value === 'string' ? value.trim() : ''
}

function readSentAt (sentAt: unknown, query: Fields): number | null {
  const fromBody = sentAt === undefined || sentAt === null ? null : parseTimestamp(sentAt)
  if (fromBody !== null) return fromBody
  for (const value of [query.sent_at, query._]) {
    const time = typeof value === 'string' ? parseTimestamp(value) : null
    if (time !== null && time >= EARLIEST_SENT_AT_MS) return time
  }
  return null
}

/** What the events of one request have in common. */
export interface RequestContext {
  project: Project
  /** Id of the request, for tracing. */
  requestId: string
  /** Epoch milliseconds. */
  receivedAt: number
  /** When the SDK says it sent the request, epoch milliseconds. */
  sentAt: number | null
  /** Address of the client; empty when it is not to be stored. */
  ip: string
  /** An import, as the request says: its events take the historical partitions. */
  historical: boolean
}

/** Who sent a request. Its address is looked up only when it is asked for. */
export interface Sender {
  /** As the trusted proxies say (`MILLRACE_TRUSTED_PROXIES`); that of the connection when there are none. */
  readonly ip: string
  readonly socket: { readonly remoteAddress?: string | undefined }
}

/** An address with a port, as some proxies write it: `10.1.2.3:4567`, `[2001:db8::1]:4567`, or without its port. */
const WITH_PORT = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/

/**
 * The address to store with the events of a request; empty when the project or the request (`ip=0`) wants none.
 *
 * It decides nothing. What a trusted proxy passed on that is no address (`unknown`) gives way to the connection's own.
 */
export function storedAddress (
  sender: Sender, query: Readonly<Record<string, unknown>>, project: Project
): string {
  if (project.anonymizeIps || query.ip === '0') return ''
  return toAddress(sender.ip) ?? toAddress(sender.socket.remoteAddress) ?? ''
}

function toAddress (text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const [, bracketed, beforePort] = WITH_PORT.exec(text) ?? []
  const address = bracketed ?? beforePort ?? text
  if (isIP(address) === 0) return undefined
  return address.startsWith('::ffff:') ? address.slice(7) : address
}
