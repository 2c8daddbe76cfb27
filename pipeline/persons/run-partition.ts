import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type Logger } from '../../platform/logger.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import { applyBatch, type ApplyBatchDeps } from './apply-batch.ts'
import { openPersonsPartitionReader, type PersonsPartitionReader } from './partition-reader.ts'
import { readPersonsMessage } from './persons-message.ts'
import { type PersonsMetrics } from './persons-metrics.ts'
import { loadRecentUpdates, openProgress, type RecentUpdates } from './persons-progress.ts'

/** Lower limit of the bytes of messages in one transaction, however large the persons are. */
const MIN_BATCH_BYTES = 16_384

/** A transaction that reads more characters of stored properties makes the next ones smaller: persons may be large. */
const MAX_PROPERTIES_LENGTH = 33_554_432

/** How long the first message of a batch waits for more, in milliseconds: each transaction has a fixed cost. */
const LINGER_MS = 50

const IDLE_WAIT_MS = 5000

/** State of a partition, for health and metrics. */
export interface PersonsPartitionState {
  partition: number
  phase: 'starting' | 'running' | 'waiting' | 'failing'
  pendingMessages: number
  lastError: string | null
}

export interface RunPartitionOptions {
  state: PersonsPartitionState
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
  signal: AbortSignal
}

/**
 * Applies a partition until the signal fires. After any failure (Postgres or the stream unavailable, a reader that lost
 * its place) it pauses, each time longer, and starts again from what Postgres has recorded; updates wait in the stream.
 *
 * Never rejects.
 */
export async function runPersonsPartition (options: RunPartitionOptions): Promise<void> {
  const { state, signal, logger } = options
  let attempt = 0
  while (!signal.aborted) {
    try {
      await runSession(options, () => { attempt = 0 })
    } catch (err) {
      if (signal.aborted) return
      state.phase = 'failing'
      state.lastError = err instanceof Error ? err.message : String(err)
      const retryAfterMs = retryDelayMs(attempt++)
      logger.warn({ err, partition: state.partition, retryAfterMs }, 'applying persons updates was interrupted')
      await pause(retryAfterMs, signal)
    }
  }
}

/** Takes over the partition and applies it until the first error. */
async function runSession (options: RunPartitionOptions, onProgress: () => void): Promise<void> {
  const { state, connection, sql, maxBatchBytes, signal } = options
  state.phase = 'starting'
  await openProgress(sql, state.partition)
  const reader = await openPersonsPartitionReader(connection, state.partition)
  try {
    const recent = await loadRecentUpdates(sql, state.partition)
    state.phase = 'running'
    let maxBytes = maxBatchBytes
    while (!signal.aborted) {
      await reader.waitForMessages(IDLE_WAIT_MS, signal)
      if (reader.waitingBytes === 0) continue
      if (reader.waitingBytes < maxBytes) await pause(LINGER_MS, signal)
      await waitForRoom(options)
      if (signal.aborted) return
      const propertiesLength = await applyNext(options, reader, recent, maxBytes)
      onProgress()
      state.lastError = null
      if (propertiesLength > MAX_PROPERTIES_LENGTH) maxBytes = Math.max(MIN_BATCH_BYTES, maxBytes >>> 2)
      else maxBytes = Math.min(maxBatchBytes, maxBytes * 2)
    }
  } finally {
    reader.close()
  }
}

async function waitForRoom ({ state, waitForRoom, signal }: RunPartitionOptions): Promise<void> {
  state.phase = 'waiting'
  await waitForRoom(signal)
  state.phase = 'running'
}

/** Applies one batch. Messages are acknowledged after the commit; after a lost acknowledgement they come again. */
async function applyNext (
  { state, sql, metrics, maxGroupTypes, deadLetterUpdates, onCopies }: RunPartitionOptions,
  reader: PersonsPartitionReader, recent: RecentUpdates, maxBytes: number
): Promise<number> {
  const startedAt = performance.now()
  const taken = reader.take(maxBytes)
  const messages = taken.map(({ data, sequence, storedUs }) =>
    readPersonsMessage(data, { sequence, publishedUs: storedUs }))
  const batch = { partition: state.partition, streamCreated: reader.streamCreated, messages }
  const applied = await applyBatch(batch, { sql, recent, maxGroupTypes, deadLetterUpdates })
  reader.acknowledge(taken)

  state.pendingMessages = taken.at(-1)?.pending ?? 0
  metrics.pendingMessages.set({ partition: state.partition }, state.pendingMessages)
  metrics.countBatch(applied, (performance.now() - startedAt) / 1000)
  onCopies()
  return applied.propertiesLength
}
