import { NEARLY_FULL, type DeadLetterFill } from '../../platform/dead-letters/read-dead-letters.ts'
import { type HealthPart } from '../../platform/health.ts'
import { type PartitionState } from '../partitions/partition-state.ts'
import { type PersonsPartitionState } from '../persons/run-partition.ts'

/** What the parts of a pipeline process say about themselves. */
export interface PipelineState {
  partitions: readonly PartitionState[]
  persons: readonly PersonsPartitionState[]
  copiesError: string | null
  rollUpError: string | null
  /** null while NATS does not answer. */
  deadLetters: DeadLetterFill | null
}

const HEALTHY_PHASES = new Set(['starting', 'running', 'standby'])

/**
 * Puts together the answer of `/_health`: each partition with its lag, and everything that works beside the partitions.
 */
export function describeHealth (state: PipelineState): HealthPart[] {
  const { partitions, persons, copiesError, rollUpError, deadLetters } = state
  return [
    ...partitions.map((partition) => ({
      name: `partition ${partition.key}`,
      healthy: partition.isHealthy(Date.now()),
      phase: partition.phase,
      pendingMessages: partition.pendingMessages,
      pendingBytes: partition.pendingBytes,
      lagMs: partition.lagMs(Date.now()),
      insertingMs: partition.insertingSince === 0 ? 0 : Date.now() - partition.insertingSince,
      lastError: HEALTHY_PHASES.has(partition.phase) ? null : partition.lastError
    })),
    ...persons.map(({ partition, phase, pendingMessages, lastError }) => ({
      name: `persons ${partition}`,
      healthy: HEALTHY_PHASES.has(phase),
      phase,
      pendingMessages,
      lastError: HEALTHY_PHASES.has(phase) ? null : lastError
    })),
    { name: 'copies of persons', healthy: copiesError === null, lastError: copiesError },
    { name: 'nats', healthy: deadLetters !== null },
    { name: 'definitions', healthy: rollUpError === null, lastError: rollUpError },
    { name: 'dead letters', healthy: (deadLetters?.ratio ?? 0) < NEARLY_FULL, ...deadLetters }
  ]
}
