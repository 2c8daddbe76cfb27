/** Where events can be that ingest processes have acknowledged and not yet published, or are just receiving. */
import { jetstreamManager, JetStreamApiError, type JetStreamManager } from '@nats-io/jetstream'
import { INGEST_BUCKET, type IngestPresence, presenceKey } from '../../../schema/wire/ingest-presence.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { readStreamInfo } from '../../../platform/nats/stream-info.ts'

/** Where an event that is found nowhere may be all the same. */
export interface PossiblePlace {
  /** On the disk of an ingest process, in its memory, or among messages that were not searched. */
  where: 'spool' | 'in_flight' | 'stream'
  /** Ingest process; null for the stream. */
  process: string | null
  /** How old the oldest event there is, ISO 8601; null: unknown. */
  since: string | null
}

const STREAM = `KV_${INGEST_BUCKET}`

/** A process that wrote no entry for so long is dead or cuts off, in milliseconds: it writes five a second. */
const SILENT_AFTER_MS = 10_000

/** JetStream API errors: no such stream, no such message. */
const NOT_FOUND = new Set([10059, 10037])

/**
 * Lists the spools and the memories of ingest processes that may hold an event.
 *
 * A process that is silent may have filled its spool since its last word; its entry stays until somebody has emptied
 * the folder.
 *
 * @param now  Epoch milliseconds.
 */
export async function listIngestPlaces (connection: NatsConnection, now: number): Promise<PossiblePlace[]> {
  const manager = await jetstreamManager(connection)
  return (await listPresences(manager)).flatMap((entry) => placesOf(entry, now))
}

function placesOf (entry: IngestPresence, now: number): PossiblePlace[] {
  const { processId: process, inFlight, spoolBytes, spooledSince, publishedThrough } = entry
  const through = publishedThrough === 0 ? null : new Date(publishedThrough).toISOString()
  const isSilent = entry.at < now - SILENT_AFTER_MS
  const places: PossiblePlace[] = []
  if (spoolBytes > 0 || isSilent) {
    places.push({ where: 'spool', process, since: spooledSince === null ? through : new Date(spooledSince).toISOString() })
  }
  if (inFlight > 0 && !isSilent) places.push({ where: 'in_flight', process, since: through })
  return places
}

/** Read without a consumer: the right to read messages of this one stream is enough. */
async function listPresences (manager: JetStreamManager): Promise<IngestPresence[]> {
  const prefix = `$KV.${INGEST_BUCKET}.`
  try {
    const { state } = await readStreamInfo(manager, STREAM, { subjects_filter: prefix + presenceKey('*') })
    const entries = await Promise.all(Object.keys(state.subjects ?? {}).map(async (subject) => {
      const message = await manager.streams.getMessage(STREAM, { last_by_subj: subject })
      // A deleted entry is a message without a body.
      return message === null || message.data.length === 0 ? [] : [message.json<IngestPresence>()]
    }))
    return entries.flat()
  } catch (error) {
    // No ingest process of a version that says so has ever started.
    if (error instanceof JetStreamApiError && NOT_FOUND.has(error.code)) return []
    throw error
  }
}
