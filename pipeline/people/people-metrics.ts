import { type Counter, type Gauge, type Histogram, type Metrics } from '../../platform/metrics.ts'
import { type PeopleUpdate } from '../../schema/people-update.ts'
import { type AppliedBatch } from './apply/apply-batch.ts'
import { MERGE_OUTCOMES, PEOPLE_REFUSALS } from './people-outcome.ts'

/** What the person applier counts. Every outcome of an update has a counter. */
export interface PeopleMetrics {
  countBatch: (batch: AppliedBatch, seconds: number) => void
  pendingMessages: Gauge<'partition'>
  copiesStored: Counter
  copiesRefused: Counter
  copiesWaitingBytes: Gauge
  copiesWaitingSeconds: Gauge
}

const UPDATE_KINDS: readonly PeopleUpdate['kind'][] = ['person', 'merge', 'group', 'groupType']

export function createPeopleMetrics (metrics: Metrics): PeopleMetrics {
  const updates = metrics.counter('people_updates_total', 'Updates of persons and groups that were applied.', { kind: UPDATE_KINDS })
  const repeated = metrics.counter('people_updates_repeated_total', 'Updates left out because the same ones were applied before.')
  const merges = metrics.counter('people_merges_total', 'Merges of persons, by how they ended.', { outcome: MERGE_OUTCOMES })
  const refused = metrics.counter('people_dead_letters_total', 'Updates, or parts of them, set aside as dead letters.', { reason: PEOPLE_REFUSALS })
  const ignored = metrics.counter('people_group_types_ignored_total',
    'Updates that named a group type beyond MILLRACE_MAX_GROUP_TYPES of their project, and were ignored.')
  const batchUpdates = metrics.histogram('people_batch_updates', 'Updates of a transaction.', [1, 10, 100, 1000, 10_000])
  const applySeconds: Histogram = metrics.histogram('people_apply_seconds', 'Time of a transaction.', [0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10])
  return {
    countBatch (batch, seconds) {
      let sum = 0
      for (const [kind, count] of Object.entries(batch.applied)) {
        updates.inc({ kind }, count)
        sum += count
      }
      repeated.inc(batch.repeated)
      for (const outcome of batch.merges) merges.inc({ outcome })
      for (const { reason } of batch.refused) refused.inc({ reason })
      ignored.inc(batch.warnings.filter(({ reason }) => reason === 'too_many_group_types').length)
      batchUpdates.observe(sum)
      applySeconds.observe(seconds)
    },
    pendingMessages: metrics.gauge('people_pending_messages', 'Messages of a partition that wait to be applied.', ['partition']),
    copiesStored: metrics.counter('people_copies_total', 'Rows of persons and groups copied to ClickHouse.'),
    copiesRefused: metrics.counter('people_copies_refused_total', 'Rows of the outbox that ClickHouse will never take.'),
    copiesWaitingBytes: metrics.gauge('people_copies_waiting_bytes', 'Compressed bytes that wait to be copied to ClickHouse.'),
    copiesWaitingSeconds: metrics.gauge('people_copies_waiting_seconds', 'Age of the oldest copy that waits.')
  }
}
