import { fieldsOf } from '../../../engines/fields.ts'
import { HttpError } from '../../../engines/errors.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'

/** How long ingest may take, in milliseconds: it answers when the event is on disk. */
const TIMEOUT_MS = 10_000

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** An event that takes the place of a dead letter. */
export interface ResentEvent {
  projectId: number
  /** The dead letter that it was made of. */
  letter: { id: number, uuid: string | null }
  /** Its JSON, which goes on as it is: numbers keep their digits. */
  json: string
}

/**
 * Sends an event to ingest as an SDK would: the same checks, the same promises. It is a new event, with a uuid of its
 * own, that names its origin in `$dead_letter_id`. It has no address but its `$ip`.
 *
 * @returns its uuid.
 * @throws {HttpError} 400 when it is no such event, 503 when ingest does not take it.
 */
export async function resendEvent (
  { projectId, letter, json }: ResentEvent, { sql, ingestUrl }: { sql: Sql, ingestUrl: string }
): Promise<string> {
  const uuid = readNewEvent(json, letter)
  const [key] = await sql<{ apiKey: string }[]>`
    SELECT api_key AS "apiKey" FROM project_api_keys WHERE project_id = ${projectId} AND (expires_at IS NULL OR expires_at > now())
    ORDER BY kind = 'project' DESC LIMIT 1`
  if (key === undefined) throw new HttpError(409, 'invalid_request', 'no_key', 'The project has no key to send events with.')
  // As an import it says nothing about a device: neither user agent nor address of this process are those of the user.
  await send(`{"api_key":${JSON.stringify(key.apiKey)},"historical_migration":true,"batch":[${json}]}`, ingestUrl)
  return uuid
}

async function send (body: string, ingestUrl: string): Promise<void> {
  const unavailable = (cause: unknown): HttpError => new HttpError(503, 'server_error', 'ingest_unavailable',
    'Ingest does not take the event now; try again later.', { cause, action: 'retry' })
  const response = await fetch(new URL('/batch/?ip=0', ingestUrl), {
    method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: AbortSignal.timeout(TIMEOUT_MS)
  }).catch((cause: unknown) => { throw unavailable(cause) })
  const answer = await response.text()
  if (response.status >= 500 || response.status === 429) throw unavailable(new Error(`ingest answered ${response.status}`))
  if (!response.ok) throw invalid(`ingest refuses it: ${answer.slice(0, 200)}`)
}

function readNewEvent (json: string, { id, uuid: origin }: ResentEvent['letter']): string {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (error) {
    throw invalid(`it is not JSON: ${String(error instanceof Error ? error.message : error)}`)
  }
  const { event, uuid, properties } = fieldsOf(value)
  if (typeof event !== 'string' || event.trim() === '') throw invalid('it has no event name')
  if (typeof uuid !== 'string' || !UUID.test(uuid)) throw invalid('it needs a uuid')
  if (uuid.toLowerCase() === origin?.toLowerCase()) {
    throw invalid('it has the uuid of the dead letter: a changed event is another one, and needs a uuid of its own')
  }
  if (fieldsOf(properties).$dead_letter_id !== id) throw invalid(`its property $dead_letter_id must be ${id}`)
  return uuid.toLowerCase()
}

function invalid (why: string): HttpError {
  return new HttpError(400, 'validation_error', 'invalid_input', `event: ${why}.`, { attr: 'event' })
}
