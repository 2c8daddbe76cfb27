/** What became of an event, as far as the stores can tell. */
import { jetstreamManager } from '@nats-io/jetstream'
import { WARNINGS_TABLE } from '../schema/ingestion-warnings.ts'
import { EVENTS_STREAM } from '../schema/streams.ts'
import { type ClickHouse, queryRows } from './clickhouse/connect-clickhouse.ts'
import type { DeadLetter } from './dead-letters/publish-dead-letter.ts'
import { scanDeadLetters } from './dead-letters/read-dead-letters.ts'
import type { NatsConnection } from './nats/connect-nats.ts'

/** The event in `events`. Times are ISO 8601. */
export interface StoredEvent {
  event: string
  distinctId: string
  timestamp: string
  receivedAt: string
  insertedAt: string
}

/**
 * The fate of an event:
 *
 * - `stored`: it is in `events`.
 * - `dead_letter`: ClickHouse refused it; a replay stores it.
 * - `dropped`: it is among the samples of ingestion warnings, so it was answered with 200 and not stored.
 * - `not_found`: none of these. It may be on its way, or dropped without a sample, or deleted, or never have come.
 */
export type Receipt =
  | { fate: 'stored', stored: StoredEvent }
  | { fate: 'dead_letter', letter: DeadLetter }
  | { fate: 'dropped', dropped: { reason: string, minute: string } }
  | { fate: 'not_found', messagesWaiting: number }

export interface FindReceiptDeps {
  clickhouse: ClickHouse
  /** Asked only when the event is not stored. */
  nats: <T>(ask: (connection: NatsConnection) => Promise<T>) => Promise<T>
}

/** Which event: the uuid in its canonical form, lower case. */
export interface ReceiptQuery {
  projectId: number
  uuid: string
}

/**
 * Looks an event up where it can be, in the order in which the answers stop changing.
 *
 * @throws while ClickHouse, or NATS if it has to be asked, is unavailable: an answer without it could be wrong.
 */
export async function findReceipt (query: ReceiptQuery, { clickhouse, nats }: FindReceiptDeps): Promise<Receipt> {
  const before = await readStored(query, clickhouse)
  if (before !== null) return { fate: 'stored', stored: before }
  const dropped = await readDropped(query, clickhouse)
  if (dropped !== null) return { fate: 'dropped', dropped }
  // Read before the letters and the table: what leaves the stream meanwhile is found in one of them.
  const messagesWaiting = await nats(countWaiting)
  const letter = await nats(async (connection) => await findLetter(query, connection))
  if (letter !== null) return { fate: 'dead_letter', letter }
  const stored = await readStored(query, clickhouse)
  return stored === null ? { fate: 'not_found', messagesWaiting } : { fate: 'stored', stored }
}

async function readStored ({ projectId, uuid }: ReceiptQuery, clickhouse: ClickHouse): Promise<StoredEvent | null> {
  const iso = (column: string): string => `concat(replaceOne(toString(${column}), ' ', 'T'), 'Z')`
  const [row] = await queryRows<StoredEvent>(clickhouse, `
    SELECT event, distinct_id AS distinctId, ${iso('events.timestamp')} AS timestamp, ${iso('received_at')} AS receivedAt,
      ${iso('inserted_at')} AS insertedAt
    FROM events PREWHERE uuid = {uuid: UUID} WHERE project_id = {project: UInt32}
    ORDER BY inserted_at LIMIT 1 SETTINGS final = 0`, { uuid, project: projectId })
  return row ?? null
}

async function readDropped (
  { projectId, uuid }: ReceiptQuery, clickhouse: ClickHouse
): Promise<{ reason: string, minute: string } | null> {
  const [row] = await queryRows<{ reason: string, minute: string }>(clickhouse, `
    SELECT reason, formatDateTime(${WARNINGS_TABLE}.minute, '%Y-%m-%dT%H:%i:%SZ', 'UTC') AS minute
    FROM ${WARNINGS_TABLE}
    WHERE project_id = {project: UInt32} AND effect = 'dropped' AND arrayExists(sent -> lower(sent) = {uuid: String}, samples.uuid)
    ORDER BY ${WARNINGS_TABLE}.minute DESC LIMIT 1`, { uuid, project: projectId })
  return row ?? null
}

async function countWaiting (connection: NatsConnection): Promise<number> {
  return (await (await jetstreamManager(connection)).streams.info(EVENTS_STREAM)).state.messages
}

/** Letters of persons are about what an event changes; the event itself is stored or on its way. */
async function findLetter ({ projectId, uuid }: ReceiptQuery, connection: NatsConnection): Promise<DeadLetter | null> {
  for await (const { letter } of scanDeadLetters(connection, { stage: 'writer', project: projectId })) {
    if (letter.uuid === uuid) return letter
  }
  return null
}
