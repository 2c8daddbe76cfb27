/** What a pipeline process answers to the operator, and where. */
import http from 'node:http'
import { type AddressInfo } from 'node:net'
import { type DeadLetterFill, NEARLY_FULL } from '../../platform/dead-letters/read-dead-letters.ts'
import { type HealthPart, healthStatusCode, reportHealth } from '../../platform/health.ts'
import { type Registry } from '../../platform/metrics.ts'
import { type PartitionState } from '../partitions/partition-state.ts'

export interface HealthServerOptions {
  host: string
  port: number
  registry: Registry
  /** False before the start is complete and as soon as the process shuts down. */
  isReady: () => boolean
  /** Read at each request of `/_health`. */
  parts: () => HealthPart[] | Promise<HealthPart[]>
}

/**
 * Answers the operator's questions: `/_liveness` (the event loop turns), `/_readiness` (the process takes part),
 * `/_health` (each part by name, and which are stuck or behind; 503 when one is stuck) and `/metrics`.
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
  switch (request.url?.split('?')[0]) {
    case '/_liveness':
      sendJson(response, 200, { status: 'ok' })
      return
    case '/_readiness':
      sendJson(response, options.isReady() ? 200 : 503, { status: options.isReady() ? 'ok' : 'not ready' })
      return
    case '/_health': {
      const report = reportHealth(await options.parts())
      sendJson(response, healthStatusCode(report), report)
      return
    }
    case '/metrics':
      response.setHeader('content-type', options.registry.contentType)
      response.end(await options.registry.metrics())
      return
    default:
      sendJson(response, 404, { status: 'not found' })
  }
}

function sendJson (response: http.ServerResponse, status: number, body: unknown): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(body))
}

/** What the parts of a pipeline process say about themselves. */
export interface PipelineState {
  partitions: readonly PartitionState[]
  persons: readonly PartitionState[]
  copiesError: string | null
  rollUpError: string | null
  /** null while NATS does not answer. */
  deadLetters: DeadLetterFill | null
}

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
