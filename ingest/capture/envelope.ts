import { isIP } from 'node:net'
import { isFields } from '../../engines/fields.ts'
import { HttpError } from '../../engines/errors.ts'
import type { Project } from '../../platform/directory/read-keys.ts'
import type { DialectRequest } from '../dialects/dialect.ts'
import { parseTimestamp } from '../../engines/parse-timestamp.ts'
import type { Fields, SentBody } from './find-events.ts'

/** What a body and its query say about all of its events. */
export interface Envelope {
  /** The key, trimmed; empty without one. */
  apiKey: string
  /** Only the events carry the key: all of them must carry the same one, if any. */
  keyIsOfEvents: boolean
  /** Project named for a personal key, as sent. */
  projectId: unknown
  /** When the SDK says it sent the request, epoch milliseconds. */
  sentAt: number | null
  /** An import rather than events as they happen. */
  historical: boolean
  withoutPersons?: boolean
  /** `sentAt` is that of this attempt and not of the first one. */
  isAttemptTime: boolean
  /** How many attempts went before this one, as posthog-js says. */
  retryCount: number
}

/** Who sent a request. Its address is computed only when it is read. */
export interface Sender {
  /** As the trusted proxies say (`MILLRACE_TRUSTED_PROXIES`); that of the connection without proxies. */
  readonly ip: string
  readonly socket: { readonly remoteAddress?: string | undefined }
}

const RETRY_COUNT = /^\d{1,3}$/

/** Timestamps before 2021 in the query are ignored (docs/reference/contract/sdks.md 1.5). */
const EARLIEST_SENT_AT_MS = 1_609_459_200_000

/**
 * Reads key, project and time of sending from the fields beside the events, from the events and from the query.
 *
 * Of the events it reads one piece, or as many as it takes to find a key.
 *
 * @throws {HttpError} 401 when events carry different keys.
 */
export function readEnvelope ({ fields, pieces }: SentBody, query: Fields): Envelope {
  const ownKey = toKey(fields.api_key) || toKey(fields.token)
  const [events = []] = pieces
  const keyOfEvents = ownKey === '' ? findFirstKey(pieces) : ''
  return {
    apiKey: ownKey || keyOfEvents || toKey(query.api_key) || toKey(query.token),
    keyIsOfEvents: keyOfEvents !== '',
    projectId: fields.project_id ?? query.project_id ?? fieldsOf(events[0])?.project_id,
    sentAt: readSentAt(fields.sent_at, query),
    historical: fields.historical_migration === true,
    withoutPersons: fields.process_person_profile === false,
    isAttemptTime: false,
    retryCount: typeof query.retry_count === 'string' && RETRY_COUNT.test(query.retry_count) ? Number(query.retry_count) : 0
  }
}

/** The envelope of a body in another form, whose key is in a header. */
export function readDialectEnvelope ({ fields, pieces }: SentBody, dialect: DialectRequest): Envelope {
  // Segment's SDKs for pages put the key into the body, or into its only event.
  const apiKey = dialect.apiKey || toKey(fields.writeKey)
  const [[event] = []] = pieces
  return {
    apiKey: apiKey || toKey(fieldsOf(event)?.writeKey),
    keyIsOfEvents: false,
    projectId: undefined,
    sentAt: dialect.attemptSentAt ?? parseTimestamp(fields.sentAt),
    historical: fields.historical_migration === true,
    isAttemptTime: dialect.attemptSentAt !== null,
    retryCount: 0
  }
}

/** @throws {HttpError} 401 when an event carries another key. */
export function requireKey (events: readonly unknown[], expected: string): void {
  findKey(events, expected)
}

/** Under `/engage`, an object without an event name is an `$identify`. */
export function nameIdentify (event: unknown): unknown {
  const fields = fieldsOf(event)
  return fields !== undefined && !('event' in fields) ? { ...fields, event: '$identify' } : event
}

/** An address with a port, as some proxies write it: `10.1.2.3:4567`, `[2001:db8::1]:4567`, or without its port. */
const WITH_PORT = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/

/** The address to store with the events of a request; empty when the project or the request (`ip=0`) wants none. */
export function storedAddress (address: string, query: Readonly<Record<string, unknown>>, project: Project): string {
  return project.anonymizeIps || query.ip === '0' ? '' : address
}

/**
 * The address of the client. A value passed on by a trusted proxy that is not an address (`unknown`) is replaced by the
 * connection's own.
 */
export function addressOf (sender: Sender): string {
  return toAddress(sender.ip) ?? toAddress(sender.socket.remoteAddress) ?? ''
}

function toAddress (text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const [, bracketed, beforePort] = WITH_PORT.exec(text) ?? []
  const address = bracketed ?? beforePort ?? text
  if (isIP(address) === 0) return undefined
  return address.startsWith('::ffff:') ? address.slice(7) : address
}

function findFirstKey (pieces: SentBody['pieces']): string {
  for (const events of pieces) {
    const key = findKey(events)
    if (key !== '') return key
  }
  return ''
}

/**
 * The key that the events themselves carry; empty when none does.
 *
 * @throws {HttpError} 401 when they carry different ones, or another than `expected`.
 */
function findKey (events: readonly unknown[], expected = ''): string {
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

function keyOfEvent (event: unknown): string {
  const fields = fieldsOf(event)
  if (fields === undefined) return ''
  const { token, $token, api_key: apiKey, properties } = fields
  return toKey(token) || toKey($token) || toKey(apiKey) || toKey(fieldsOf(properties)?.token)
}

function fieldsOf (value: unknown): Fields | undefined {
  return isFields(value) ? value : undefined
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
