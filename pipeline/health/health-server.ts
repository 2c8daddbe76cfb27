/** The health endpoints of a pipeline process, and what `/_health` reports. */
import { fastify } from 'fastify'
import { type HealthOptions, type HealthPart, healthRoutes } from '../../platform/health-and-readiness.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import { type DeadLetterFill, NEARLY_FULL } from './watch-streams.ts'

/**
 * Answers what every tier answers to operators and orchestrators, on a port of its own.
 *
 * @returns the port, and how to close.
 */
export async function startHealthServer (
  { host, port, ...options }: HealthOptions & { host: string, port: number }
): Promise<{ port: number, close: () => Promise<void> }> {
  const app = fastify({ forceCloseConnections: true })
  await app.register(healthRoutes, options)
  return { port: Number(new URL(await app.listen({ host, port })).port), close: async () => await app.close() }
}

/** The state of the parts of a pipeline process. */
export interface PipelineState {
  partitions: readonly PartitionState[]
  persons: readonly PartitionState[]
  copiesError: string | null
  rollUpError: string | null
  /** null while NATS does not answer. */
  deadLetters: DeadLetterFill | null
}

/** Builds the answer of `/_health`: each partition with its lag, and everything that works beside the partitions. */
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
      lastError: partition.shownError()
    })),
    ...persons.map((partition) => ({
      name: partition.key,
      healthy: partition.isHealthy(Date.now()),
      phase: partition.phase,
      pendingMessages: partition.pendingMessages,
      lastError: partition.shownError()
    })),
    { name: 'copies of persons', healthy: copiesError === null, lastError: copiesError },
    { name: 'nats', healthy: deadLetters !== null },
    { name: 'definitions', healthy: rollUpError === null, lastError: rollUpError },
    { name: 'dead letters', healthy: (deadLetters?.ratio ?? 0) < NEARLY_FULL, ...deadLetters }
  ]
}
