import { CLICKHOUSE_ERRORS } from '../platform/clickhouse/clickhouse-errors.ts'
import { createMetrics, type Metrics } from '../platform/metrics.ts'
import type { PartitionState } from './stream/partition-state.ts'
import { WRITER_REFUSALS } from './events/dead-letter-refused-rows.ts'

/** Upper bounds of delays between JetStream and its readers, in seconds; 5 is the one that the alert uses. */
export const DELIVERY_BUCKETS = [0.01, 0.05, 0.25, 1, 5, 10, 20, 60]

/** The metrics of a pipeline process. Every outcome of an event has a counter: stored, deduplicated, dead-lettered. */
export type PipelineMetrics = ReturnType<typeof createPipelineMetrics>

/** @param partitions  The partitions this process writes at the moment. */
export function createPipelineMetrics (partitions: () => Iterable<PartitionState>) {
  const metrics = createMetrics('pipeline')
  const partition = ['partition'] as const
  const ofPartition = { partition: null }
  addPartitionGauges(metrics, partitions)
  const byPartition = {
    storedRows: metrics.counter('rows_stored_total', 'Rows stored in ClickHouse.', ofPartition),
    storedBatches: metrics.counter('batches_stored_total', 'Inserts confirmed by ClickHouse.', ofPartition),
    deduplicatedRows: metrics.counter('rows_deduplicated_total', 'Rows not inserted, as the event is already stored.', ofPartition),
    deadLettersWaiting: metrics.counter('dead_letter_refusals_total', 'Attempts to publish a dead letter into the full stream; the partition retries.', ofPartition),
    confirmedRows: metrics.counter('rows_confirmed_total', 'Rows looked up before their insert: suspected duplicates, a sample, and repeats after a deletion.', ofPartition)
  }
  const byCode = {
    insertRetries: metrics.counter('insert_retries_total', 'Inserts retried, by ClickHouse error code.', { partition: null, code: null }),
    refusedBatches: metrics.counter('batches_refused_total', 'Inserts refused because of their rows, by ClickHouse error code.', { partition: null, code: null })
  }
  const histograms = {
    insertSeconds: metrics.histogram('insert_seconds', 'Duration of a confirmed insert.', [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30], partition),
    batchRows: metrics.histogram('batch_rows', 'Rows per confirmed insert.', [1, 10, 100, 1000, 10_000, 100_000], partition),
    batchBytes: metrics.histogram('batch_bytes', 'Compressed bytes per confirmed insert.',
      [1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000], partition),
    storedAgeSeconds: metrics.histogram('stored_age_seconds',
      'Delay from receipt of the oldest event to the confirmed insert.',
      [0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300, 3600], partition),
    deliverySeconds: metrics.histogram('delivery_seconds',
      'Delay until an EVENTS message is delivered, from its storage or from the pull that asked for it, whichever came later.',
      DELIVERY_BUCKETS, partition)
  }
  const started = new Set<string>()
  return {
    metrics,
    ...byPartition,
    ...byCode,
    ...histograms,
    /** Starts the counters of a partition at 0. Called when the process takes the partition. */
    startPartition (partition: string): void {
      // A partition that comes back keeps its counts.
      if (started.has(partition)) return
      started.add(partition)
      for (const counter of Object.values(byPartition)) counter.inc({ partition }, 0)
      for (const histogram of Object.values(histograms)) histogram.zero({ partition })
      for (const [code, { action }] of Object.entries(CLICKHOUSE_ERRORS)) {
        (action === 'refuse' || action === 'mismatch' ? byCode.refusedBatches : byCode.insertRetries).inc({ partition, code }, 0)
      }
    },
    deadLetters: metrics.counter('dead_letters_total', 'Rows and messages dead-lettered.', { stage: ['writer'], reason: WRITER_REFUSALS })
  }
}

function addPartitionGauges (metrics: Metrics, partitions: () => Iterable<PartitionState>): void {
  const show = (name: string, help: string, of: (state: PartitionState) => number): void => metrics.gaugesFrom(
    name, help, ['partition'], () => Array.from(partitions(), (state) => [{ partition: state.key }, of(state)] as const))
  show('partition_pending_messages', 'Unacknowledged messages of a partition.', ({ pendingMessages }) => pendingMessages)
  show('partition_pending_bytes', 'Unacknowledged bytes of a partition, estimated from messages in memory.', ({ pendingBytes }) => pendingBytes)
  show('partition_lag_seconds', 'Age of the oldest unacknowledged message in memory.', (state) => state.lagMs(Date.now()) / 1000)
  show('partition_healthy', '1 while a partition stores its messages, 0 while it waits or fails.',
    (state) => state.isHealthy(Date.now()) && state.phase !== 'standby' ? 1 : 0)
}
