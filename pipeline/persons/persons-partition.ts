import { pause } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { runSessions, type PartitionControl } from '../stream/partition-supervisor.ts'
import { applyBatch, type ApplyBatchDeps } from './apply-batch.ts'
import { openPersonsReader, type PersonsReader } from './persons-reader.ts'
import { readPersonsMessage } from './persons-message.ts'
import type { PersonsMetrics } from './persons-metrics.ts'
import { loadRecentUpdates, openProgress, type RecentUpdates } from './persons-progress.ts'

/** Lower limit of the bytes of messages in one transaction, however large the persons are. */
const MIN_BATCH_BYTES = 16_384

/**
 * A transaction that reads more bytes of stored properties makes the next ones smaller, as it takes some ten seconds
 * and others wait for the lock. Not before: each batch writes the persons that it names once, however often it names
 * them.
 */
const MAX_READ_BYTES = 268_435_456

/** How long the first message of a batch waits for more, in milliseconds: each transaction has a fixed cost. */
const LINGER_MS = 50

const IDLE_WAIT_MS = 5000

/**
 * After a transaction that read or was sent more bytes than this, the partition rests as long as it worked: a flood of
 * large properties, which anybody with a public key can send, leaves half of the time to the events of others.
 */
const LARGE_BATCH_BYTES = 4_194_304

/** Maximum rest, in milliseconds. */
const MAX_REST_MS = 10_000

export interface PersonsPartitionDeps extends PartitionControl {
  partition: number
  connection: NatsConnection
  sql: Sql
  metrics: PersonsMetrics
  /** Maximum group types of a project. */
  maxGroupTypes: number
  logger: Logger
  deadLetterUpdates: ApplyBatchDeps['deadLetterUpdates']
  /** Resolves when the outbox has room for copies; awaited before each batch. */
  waitForRoom: (signal: AbortSignal) => Promise<void>
  /** Called after each transaction that may have written copies to the outbox. */
  onCopies: () => void
  /** Maximum bytes of messages applied in one transaction. */
  maxBatchBytes: number
}

/**
 * Applies a partition until it is stopped. After any failure (Postgres or the stream unavailable, a reader that lost
 * its place) a new session starts from what Postgres has recorded; updates wait in the stream.
 *
 * Never rejects.
 */
export async function runPersonsPartition (deps: PersonsPartitionDeps): Promise<void> {
  await runSessions(deps, async () => await runSession(deps))
}

/** Takes over the partition and applies it until the first error. */
async function runSession (deps: PersonsPartitionDeps): Promise<void> {
  const { partition, state, connection, sql, metrics, maxBatchBytes, stop } = deps
  state.phase = 'starting'
  await openProgress(sql, partition)
  const reader = await openPersonsReader(partition, {
    connection, onDelay: (seconds) => metrics.deliverySeconds.observe(seconds)
  })
  try {
    const recent = await loadRecentUpdates(sql, partition)
    state.phase = 'running'
    // A process that died of a batch comes further with less.
    let maxBytes = MIN_BATCH_BYTES
    while (!stop.aborted) {
      await reader.waitForMessages(IDLE_WAIT_MS, stop)
      if (reader.waitingBytes === 0) continue
      if (reader.waitingBytes < maxBytes) await pause(LINGER_MS, stop)
      state.phase = 'waiting'
      await deps.waitForRoom(stop)
      state.phase = 'running'
      if (stop.aborted) return
      const startedAt = performance.now()
      const { propertiesBytes, messageBytes } = await applyNext(deps, reader, recent, maxBytes)
      state.recover()
      if (propertiesBytes + messageBytes > LARGE_BATCH_BYTES) {
        await pause(Math.min(MAX_REST_MS, performance.now() - startedAt), stop)
      }
      if (propertiesBytes > MAX_READ_BYTES) maxBytes = Math.max(MIN_BATCH_BYTES, maxBytes >>> 2)
      else maxBytes = Math.min(maxBatchBytes, maxBytes * 2)
    }
  } finally {
    reader.close()
  }
}

/** Applies one batch. Messages are acknowledged after the commit; after a lost acknowledgement they come again. */
async function applyNext (
  { partition, state, sql, metrics, maxGroupTypes, deadLetterUpdates, onCopies, logger }: PersonsPartitionDeps,
  reader: PersonsReader, recent: RecentUpdates, maxBytes: number
): Promise<{ propertiesBytes: number, messageBytes: number }> {
  const startedAt = performance.now()
  const taken = reader.take(maxBytes)
  const messages = taken.map(({ data, sequence, storedUs, receivedAt }) =>
    readPersonsMessage(data, { sequence, publishedUs: storedUs }, receivedAt))
  const batch = { partition, streamCreated: reader.streamCreated, messages }
  const applied = await applyBatch(batch, { sql, recent, maxGroupTypes, deadLetterUpdates })
  reader.acknowledge(taken)

  state.pendingMessages = taken.at(-1)?.pending ?? 0
  metrics.pendingMessages.set({ partition }, state.pendingMessages)
  if (applied.leftOut.length > 0) {
    const [{ reason, projectId } = {}] = applied.leftOut
    logger.error({ partition, updates: applied.leftOut.length, reason, projectId }, 'refused updates were not dead-lettered: the dead-letter stream has no room for more letters of their project')
  }
  metrics.countBatch(applied, (performance.now() - startedAt) / 1000)
  onCopies()
  return {
    propertiesBytes: applied.propertiesBytes,
    messageBytes: taken.reduce((sum, { data }) => sum + data.byteLength, 0)
  }
}
