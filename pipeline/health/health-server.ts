/** The health endpoints of a pipeline process, and what `/_health` reports. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { answerHealth, HEALTH_PATHS, type HealthOptions, type HealthPart } from '../../platform/health-and-readiness.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import { type DeadLetterFill, NEARLY_FULL } from './watch-streams.ts'

export interface HealthServerOptions extends HealthOptions {
  host: string
  port: number
}

/**
 * Answers what every tier answers to operators and orchestrators (`answerHealth`), on a port of its own.
 *
 * @returns the port, and how to close.
 */
export async function startHealthServer (
  options: HealthServerOptions
): Promise<{ port: number, close: () => Promise<void> }> {
  const server = http.createServer((request, response) => {
    answer(request, response, options).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}

async function answer (
  request: http.IncomingMessage, response: http.ServerResponse, options: HealthServerOptions
): Promise<void> {
  const path = HEALTH_PATHS.find((known) => known === request.url?.split('?')[0])
  const { status, contentType, body } = path === undefined
    ? { status: 404, contentType: 'application/json', body: '{"status":"not found"}' }
    : await answerHealth(path, options)
  response.writeHead(status, { 'content-type': contentType }).end(body)
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
