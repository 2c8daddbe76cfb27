import type { Histogram, Metrics } from '../../platform/metrics.ts'
import { DELIVERY_BUCKETS } from '../pipeline-metrics.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import type { AppliedBatch } from './apply-batch.ts'
import { MERGE_OUTCOMES, PERSONS_REFUSALS } from './persons-outcome.ts'

/** Metrics of the persons pipeline. Every outcome of an update has a counter. */
export type PersonsMetrics = ReturnType<typeof createPersonsMetrics>

const UPDATE_KINDS: readonly PersonsUpdate['kind'][] = ['person', 'merge', 'group', 'groupType']

export function createPersonsMetrics (metrics: Metrics) {
  const updates = metrics.counter('persons_updates_total', 'Applied updates of persons and groups.', { kind: UPDATE_KINDS })
  const deduplicated = metrics.counter('persons_updates_deduplicated_total', 'Updates skipped as already applied.')
  const merges = metrics.counter('persons_merges_total', 'Merges of persons, by outcome.', { outcome: MERGE_OUTCOMES })
  const refused = metrics.counter('persons_dead_letters_total', 'Refused updates, or parts; includes those without a dead letter.', { reason: PERSONS_REFUSALS })
  const leftOut = metrics.counter('persons_dead_letters_left_out_total',
    'Refused updates, or parts, without a dead letter for lack of room.', { reason: PERSONS_REFUSALS })
  const ignored = metrics.counter('persons_group_types_ignored_total',
    'Updates ignored beyond MILLRACE_MAX_GROUP_TYPES.')
  const batchUpdates = metrics.histogram('persons_batch_updates', 'Updates per transaction.', [1, 10, 100, 1000, 10_000])
  const applySeconds: Histogram = metrics.histogram('persons_apply_seconds', 'Duration of a transaction that applies updates.', [0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10])
  return {
    countBatch (batch: AppliedBatch, seconds: number): void {
      let sum = 0
      for (const [kind, count] of Object.entries(batch.applied)) {
        updates.inc({ kind }, count)
        sum += count
      }
      deduplicated.inc(batch.deduplicated)
      for (const outcome of batch.merges) merges.inc({ outcome })
      for (const { reason } of batch.refused) refused.inc({ reason })
      for (const { reason } of batch.leftOut) leftOut.inc({ reason })
      ignored.inc(batch.warnings.filter(({ reason }) => reason === 'too_many_group_types').length)
      batchUpdates.observe(sum)
      applySeconds.observe(seconds)
    },
    pendingMessages: metrics.gauge('persons_pending_messages', 'Unapplied messages of a persons partition.', ['partition']),
    deliverySeconds: metrics.histogram('persons_delivery_seconds',
      'Delay from storage of a PERSONS message, or a later pull, to delivery.',
      DELIVERY_BUCKETS),
    copiesStored: metrics.counter('persons_copies_total', 'Rows of persons and groups copied to ClickHouse.'),
    copiesRefused: metrics.counter('persons_copies_refused_total', 'Rows of persons_outbox refused by ClickHouse, not retried.'),
    copiesWaitingBytes: metrics.gauge('persons_copies_waiting_bytes', 'Compressed bytes in persons_outbox not yet copied.'),
    copiesWaitingSeconds: metrics.gauge('persons_copies_waiting_seconds', 'Age of the oldest row of persons_outbox not yet copied.')
  }
}
