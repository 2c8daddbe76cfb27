import { NEARLY_FULL, type DeadLetterFill } from '../../platform/dead-letters/read-dead-letter-fill.ts'
import { type HealthPart } from '../../platform/health/health-report.ts'
import { type LaneState } from '../lanes/lane-state.ts'
import { type PartitionState } from '../people/run-partition.ts'

/** What the parts of a pipeline process say about themselves. */
export interface PipelineState {
  lanes: readonly LaneState[]
  people: readonly PartitionState[]
  copiesError: string | null
  rollUpError: string | null
  /** null while NATS does not answer. */
  deadLetters: DeadLetterFill | null
}

const HEALTHY_PHASES = new Set(['starting', 'running', 'elsewhere'])

/** Puts together the answer of `/_health`: each lane with its lag, and everything that works beside the lanes. */
export function describeHealth (state: PipelineState): HealthPart[] {
  const { lanes, people, copiesError, rollUpError, deadLetters } = state
  return [
    ...lanes.map((lane) => ({
      name: `lane ${lane.key}`,
      healthy: lane.isHealthy(Date.now()),
      phase: lane.phase,
      pendingMessages: lane.pendingMessages,
      pendingBytes: lane.pendingBytes,
      lagMs: lane.lagMs(Date.now()),
      insertingMs: lane.insertingSince === 0 ? 0 : Date.now() - lane.insertingSince,
      lastError: HEALTHY_PHASES.has(lane.phase) ? null : lane.lastError
    })),
    ...people.map(({ partition, phase, pendingMessages, lastError }) => ({
      name: `people ${partition}`,
      healthy: HEALTHY_PHASES.has(phase),
      phase,
      pendingMessages,
      lastError: HEALTHY_PHASES.has(phase) ? null : lastError
    })),
    { name: 'copies of people', healthy: copiesError === null, lastError: copiesError },
    { name: 'nats', healthy: deadLetters !== null },
    { name: 'definitions', healthy: rollUpError === null, lastError: rollUpError },
    { name: 'dead letters', healthy: (deadLetters?.ratio ?? 0) < NEARLY_FULL, ...deadLetters }
  ]
}
