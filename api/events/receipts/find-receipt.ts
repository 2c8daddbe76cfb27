/**
 * What became of an event, as far as the stores know: docs/send/what-happens-to-an-event.md has the limits. It is
 * computed on read: a row of history would cost an event as much as storing it. Only what leaves no other trace
 * (duplicates, drops, deletions) is written by uuid, capped, so that senders cannot inflate it.
 */
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { DeadLetter } from '../../../schema/wire/dead-letter-message.ts'
import { scanDeadLetters } from '../../../platform/dead-letters/read-dead-letters.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { listRetention } from '../../../platform/retention-rules.ts'
import { groupByCutoff } from '../../../schema/retention.ts'
import { makeReceipt, type Receipt, receiptOfLetter } from './describe-receipt.ts'
import { type EventTraces, readDroppedSample, readTraces } from './read-traces.ts'
import { searchStream } from './search-stream.ts'
import { type EventQuery, readStoredEvent, timeOfUuid } from './stored-events.ts'
import { INGEST_BUCKET, type IngestPresence, presenceKey } from '../../../schema/wire/ingest-presence.ts'
import { readBucket } from '../../../platform/nats/stream-info.ts'

export interface FindReceiptDeps {
  clickhouse: ClickHouse
  /** Asked only when the event is not stored. */
  nats: <T>(ask: (connection: NatsConnection) => Promise<T>) => Promise<T>
  /** Asked for the rules of retention when the event is found nowhere. */
  sql: () => Sql | Promise<Sql>
  /** Epoch milliseconds. */
  now: () => number
}

type DeletedEvent = NonNullable<Receipt['deleted']>

/**
 * Looks an event up where it can be. Its fate:
 *
 * - `stored`: it is in `events`; `duplicates` says how often it came again.
 * - `dead_letter`: it does not meet its schema, or ClickHouse refused it; a replay stores it.
 * - `waiting`: it is in a message of the stream.
 * - `dropped`: it was answered with 200 and not stored.
 * - `deleted`: it was deleted, or is too old to be kept if it was ever stored.
 * - `unknown`: no process acknowledged it; or it was dropped longer ago than drops are remembered, or beyond
 *   their number; or it is in one of the places of `may_be_in`.
 *
 * Events move one way: spool, stream, table or dead letter. The places are asked in this order, and the table once more
 * at the end, so that an event that moves meanwhile is found.
 *
 * @throws while a store that has to be asked is unavailable: an answer without it could be wrong.
 */
export async function findReceipt (query: EventQuery, deps: FindReceiptDeps): Promise<Receipt> {
  const { clickhouse, nats } = deps
  const [stored, [traces]] = await Promise.all([
    readStoredEvent(query, clickhouse),
    readTraces({ projectId: query.projectId, uuids: [query.uuid] }, clickhouse) as Promise<[EventTraces]>
  ])
  const { uuid } = query
  const { duplicates } = traces
  if (stored !== null) return makeReceipt(uuid, 'stored', { stored, duplicates })
  const { mayBeIn, search, letter } = await nats(async (connection) => ({
    mayBeIn: await listIngestPlaces(connection, deps.now()),
    search: await searchStream(query, connection),
    letter: await findLetter(query, connection)
  }))
  const storedSince = await readStoredEvent(query, clickhouse)
  if (storedSince !== null) return makeReceipt(uuid, 'stored', { stored: storedSince, duplicates })
  if (letter !== null) return receiptOfLetter(uuid, letter)
  const { searched, found: [waiting] } = search
  if (waiting !== undefined) return makeReceipt(uuid, 'waiting', { waiting, searched })
  const dropped = traces.dropped ?? await readDroppedSample(query, clickhouse)
  if (dropped !== null) return makeReceipt(uuid, 'dropped', { dropped })
  const deleted = await findDeletion(query, deps, traces.deletedAt, duplicates.count > 0)
  if (deleted !== null) return makeReceipt(uuid, 'deleted', { deleted })
  const unsearched = searched.messages < searched.of
  return makeReceipt(uuid, 'unknown', {
    searched, may_be_in: unsearched ? [...mayBeIn, { where: 'stream', process: null, since: null }] : mayBeIn
  })
}

/** Letters of persons are about what an event changes; the event itself is stored or on its way. */
async function findLetter ({ projectId, uuid }: EventQuery, connection: NatsConnection): Promise<DeadLetter | null> {
  for (const stage of ['schema', 'writer'] as const) {
    for await (const { letter } of scanDeadLetters(connection, { stage, project: projectId })) {
      if (letter.uuid === uuid) return letter
    }
  }
  return null
}

/** @param wasStored  Whether it is known to have been. If not, it is too old to be kept. */
async function findDeletion (
  query: EventQuery, { sql, now }: FindReceiptDeps, askedAt: string | null, wasStored: boolean
): Promise<DeletedEvent | null> {
  const gone = { asked_at: askedAt, kept_since: null, was_stored: true }
  if (askedAt !== null) return { ...gone, why: 'person' }
  const happenedAt = query.timestamp ?? timeOfUuid(query.uuid)
  const [group] = groupByCutoff(await listRetention(await sql()), [query.projectId], now())
  const keptSince = group?.before ?? null
  if (happenedAt !== null && keptSince !== null && new Date(happenedAt).toISOString() < keptSince) {
    return { ...gone, why: 'retention', kept_since: keptSince, was_stored: wasStored || null }
  }
  return wasStored ? { ...gone, why: 'unknown' } : null
}

/** Where an event that is found nowhere may be all the same. */
type PossiblePlace = NonNullable<Receipt['may_be_in']>[number]

/** A process whose entry is older than this, in milliseconds, is dead or cut off: it renews its entry every 4 s. */
const SILENT_AFTER_MS = 10_000

/**
 * Lists the spools and the memories of ingest processes that may hold an event.
 *
 * A process that is silent may have filled its spool since its last word; its entry stays until somebody has emptied
 * the folder.
 *
 * @param now  Epoch milliseconds.
 */
export async function listIngestPlaces (connection: NatsConnection, now: number): Promise<PossiblePlace[]> {
  const entries = await readBucket<IngestPresence>(connection, INGEST_BUCKET, presenceKey(''))
  return entries.flatMap(({ value }) => placesOf(value, now))
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
