/** The watermark as people read it, and what the ingest processes say that hold it back. */
import { JetStreamApiError, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { HttpError } from '../../engines/errors.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { notFound } from '../http/errors.ts'
import { INGEST_BUCKET, type IngestPresence, presenceKey } from '../../schema/wire/ingest-presence.ts'

/** The watermark of all projects. */
export interface Watermark {
  completeThrough: Date
  updatedAt: Date
  /** What it waits for; empty while it is at most a few seconds behind. */
  heldBy: string
}

const READ_WATERMARK = `
  SELECT toFloat64(toUnixTimestamp64Milli(complete_through)) AS through,
    toFloat64(toUnixTimestamp64Milli(updated_at)) AS updated, held_by
  FROM watermarks WHERE project_id = 0`

/**
 * Reads the watermark. Whatever is read from `events` afterwards has every acknowledged event that was received before.
 *
 * @returns null while nothing is known.
 * @throws when ClickHouse is unavailable.
 */
export async function readWatermark (clickhouse: ClickHouse): Promise<Watermark | null> {
  const [row] = await queryRows<{ through: number, updated: number, held_by: string }>(clickhouse, READ_WATERMARK)
  if (row === undefined) return null
  return { completeThrough: new Date(row.through), updatedAt: new Date(row.updated), heldBy: row.held_by }
}

/** A spool folder that the watermark waits for. */
export interface KnownIngest extends IngestPresence {
  /** Of the folder. */
  id: string
  /** When NATS stored its entry, epoch milliseconds. */
  storedAt: number
}

/** JetStream API errors: no such stream, no such message. */
const NOT_FOUND: readonly number[] = [10059, 10037]

/**
 * Lists every spool folder that has an entry, whether its process runs or not.
 *
 * @throws when NATS is unavailable.
 */
export async function listIngest (connection: NatsConnection): Promise<KnownIngest[]> {
  const manager = await jetstreamManager(connection)
  const stream = `KV_${INGEST_BUCKET}`
  const prefix = `$KV.${INGEST_BUCKET}.${presenceKey('')}`
  const found: KnownIngest[] = []
  try {
    const { state: { subjects = {} } } = await readStreamInfo(manager, stream, { subjects_filter: `${prefix}>` })
    for (const subject of Object.keys(subjects)) {
      const message = await manager.streams.getMessage(stream, { last_by_subj: subject })
      // Empty: the mark of a removal.
      if (message === null || message.data.length === 0) continue
      found.push({
        ...message.json<IngestPresence>(), id: subject.slice(prefix.length), storedAt: message.time.getTime()
      })
    }
  } catch (error) {
    if (!(error instanceof JetStreamApiError && NOT_FOUND.includes(error.code))) throw error
  }
  return found.sort((one, other) => one.publishedThrough - other.publishedThrough)
}

/** An entry younger than this, in milliseconds, belongs to a process that runs: it renews it every four seconds. */
const ALIVE_MS = 10_000

/**
 * Removes the entry of a spool folder that is lost: the watermark no longer waits for what was in it.
 *
 * @param now  Epoch milliseconds.
 * @throws {HttpError} 404 `not_found`, 409 `ingest_alive`; or what NATS says.
 */
export async function forgetIngest (connection: NatsConnection, id: string, now: number): Promise<void> {
  const known = (await listIngest(connection)).find((each) => each.id === id)
  if (known === undefined) throw notFound()
  if (now - known.storedAt < ALIVE_MS) {
    throw new HttpError(409, 'invalid_request', 'ingest_alive', `Ingest ${id} on ${known.host} runs: stop it instead.`)
  }
  await (await new Kvm(connection).open(INGEST_BUCKET)).delete(presenceKey(id))
}
