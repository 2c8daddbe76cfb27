import { HttpError } from '../platform/errors.ts'
import { parseTimestamp } from './normalise/parse-timestamp.ts'

/** What a request says besides its events. */
export interface Envelope {
  events: unknown[]
  /** The key, trimmed; empty when there is none. */
  apiKey: string
  /** Project named for a personal key, as sent. */
  projectId: unknown
  /** When the SDK says it sent the request, epoch milliseconds. */
  sentAt: number | null
  /** An import rather than events as they happen. */
  historical: boolean
}

export interface EnvelopeHints {
  query: Readonly<Record<string, unknown>>
  /** The path is `/engage`, where an object without an event name is an `$identify`. */
  isEngage: boolean
}

/** Times of a query before 2021 are no times (sdk-compat 1.5). */
const EARLIEST_SENT_AT_MS = 1_609_459_200_000

/**
 * Finds events, key and time of sending in the forms SDKs use: one event, an array of events, or
 * `{ api_key, batch, sent_at }`.
 *
 * @throws {HttpError} 400 when the body has none of these forms; 401 when its events carry different keys.
 */
export function readEnvelope (body: unknown, { query, isEngage }: EnvelopeHints): Envelope {
  if (typeof body !== 'object' || body === null) {
    throw new HttpError(400, 'validation_error', 'invalid_body', 'The body must be an event, an array of events, or an object with a batch.')
  }
  const top: Record<string, unknown> = Array.isArray(body) ? {} : body as Record<string, unknown>
  const events = readEvents(body, top, isEngage)
  return {
    events,
    apiKey: readApiKey(top, events, query),
    projectId: top.project_id ?? query.project_id ?? firstProjectId(events),
    sentAt: readSentAt(top.sent_at, query),
    historical: top.historical_migration === true
  }
}

function readEvents (body: object, top: Record<string, unknown>, isEngage: boolean): unknown[] {
  const events = Array.isArray(body) ? body as unknown[] : readBatch(body, top)
  return isEngage ? events.map(nameIdentify) : events
}

function readBatch (body: object, top: Record<string, unknown>): unknown[] {
  if (top.batch === undefined || 'event' in body) return [body]
  if (Array.isArray(top.batch)) return top.batch as unknown[]
  throw new HttpError(400, 'validation_error', 'invalid_batch', 'batch must be an array of events.', { attr: 'batch' })
}

function nameIdentify (event: unknown): unknown {
  const isNameless = typeof event === 'object' && event !== null && !Array.isArray(event) && !('event' in event)
  return isNameless ? { ...event, event: '$identify' } : event
}

/** The top level wins; else all events that carry a key must carry the same one. */
function readApiKey (
  top: Record<string, unknown>, events: unknown[], query: Readonly<Record<string, unknown>>
): string {
  const own = toKey(top.api_key) || toKey(top.token)
  if (own !== '') return own
  let found = ''
  for (const event of events) {
    const key = keyOfEvent(event)
    if (key === '' || key === found) continue
    if (found !== '') {
      throw new HttpError(401, 'authentication_error', 'invalid_api_key', 'The events of one request must carry the same key.')
    }
    found = key
  }
  return found || toKey(query.api_key) || toKey(query.token)
}

function keyOfEvent (event: unknown): string {
  if (typeof event !== 'object' || event === null) return ''
  const { token, $token, api_key: apiKey, properties } = event as Record<string, unknown>
  return toKey(token) || toKey($token) || toKey(apiKey) ||
    (typeof properties === 'object' && properties !== null ? toKey((properties as { token?: unknown }).token) : '')
}

function firstProjectId (events: unknown[]): unknown {
  const first = events[0]
  return typeof first === 'object' && first !== null ? (first as { project_id?: unknown }).project_id : undefined
}

function toKey (value: unknown): string {
  return typeof value === 'string' ? value.trim() : ''
}

function readSentAt (sentAt: unknown, query: Readonly<Record<string, unknown>>): number | null {
  const fromBody = sentAt === undefined || sentAt === null ? null : parseTimestamp(sentAt)
  if (fromBody !== null) return fromBody
  for (const value of [query.sent_at, query._]) {
    const time = typeof value === 'string' ? parseTimestamp(value) : null
    if (time !== null && time >= EARLIEST_SENT_AT_MS) return time
  }
  return null
}
