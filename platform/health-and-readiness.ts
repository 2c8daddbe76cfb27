import type { FastifyInstance, FastifyReply } from 'fastify'
import { errorCode } from '../engines/errors.ts'
import { withTimeout } from './intervals.ts'
import type { Registry } from './metrics.ts'

/** One dependency or stage of a process: whether it works, and what an operator wants to know of it. */
export interface HealthPart {
  name: string
  healthy: boolean
  /** Age of the oldest work that waits for the part, in milliseconds. */
  lagMs?: number
  /** Lags, sizes, the last error: whatever the part can say. */
  [detail: string]: unknown
}

/** Answer of `/_health`, of the same shape on every tier. */
export interface HealthReport {
  /**
   * - `ok`: everything works, and nothing waits for long.
   * - `behind`: everything works, and something waits for longer than `BEHIND_MS`, as while it is caught up.
   * - `degraded`: something does not work.
   */
  status: 'ok' | 'behind' | 'degraded'
  /** Names of the parts that do not work, the cause first: services before the stages that wait for them. */
  stuck: string[]
  /** The parts with old work, whether they work or not; the oldest work first. */
  behind: { name: string, lagMs: number }[]
  parts: HealthPart[]
}

/** From this age on, in milliseconds, waiting work is old: without a backlog an event waits for a second or two. */
export const BEHIND_MS = 30_000

/** What a process may depend on. When one is unavailable, it is the reason why stages of the process wait. */
export type ServiceName = 'nats' | 'clickhouse' | 'postgres' | 'api'
const SERVICES: ReadonlySet<string> = new Set<ServiceName>(['nats', 'clickhouse', 'postgres', 'api'])

/** What a process depends on: each check rejects when the service does not answer. */
export type ServiceChecks = Partial<Record<ServiceName, () => Promise<unknown>>>

/** Answer of `/_readiness`, of the same shape on every tier. */
export interface Readiness {
  /**
   * - `ok`, `degraded`: requests may be sent here (200); `degraded` when a dependency does not answer.
   * - `starting`, `shutting down`: not yet, or no longer (503).
   */
  status: 'ok' | 'degraded' | 'starting' | 'shutting down'
  checks: Partial<Record<ServiceName, 'ok' | 'unavailable'>>
  /** Of the process: several may share a port. */
  pid: number
}

/** Where a process stands between its start and its end. */
export type ProcessPhase = 'starting' | 'running' | 'shutting down'

export interface HealthOptions {
  registry: Registry
  phase: () => ProcessPhase
  /** The process goes on without any of them; it is `degraded` then, and ready all the same. */
  checks: ServiceChecks
  /** Read at each request of `/_health`. */
  parts: () => HealthPart[] | Promise<HealthPart[]>
}

/** An orchestrator asks every few seconds and must not pile up behind a service that hangs. In milliseconds. */
const CHECK_TIMEOUT_MS = 2000

/**
 * How long `/_readiness` waits for a dependency, in milliseconds: balancers give up after a second or two, and a
 * dependency that hangs must not look like a process that does.
 */
export const READINESS_CHECK_MS = 500

/**
 * How long the `/_readiness` of ingest waits for that of the API, in milliseconds: longer than the API waits for its
 * own dependencies, or one that hangs there would look like an API that does.
 */
export const API_READINESS_CHECK_MS = READINESS_CHECK_MS + 400

export const HEALTH_PATHS = ['/_liveness', '/_readiness', '/_health', '/metrics'] as const

/**
 * Serves, for operators and orchestrators, on the port of each tier and outside of its API:
 *
 * - `/_liveness`: the event loop turns.
 * - `/_readiness`: whether requests may be sent here, and which dependencies answer. Dependencies take no part in the
 *   status code: a balancer that turned away would take from clients what works without them.
 * - `/_health`: each part by name, and which are stuck (503) or behind.
 * - `/metrics`: what Prometheus reads.
 */
export async function healthRoutes (app: FastifyInstance, options: HealthOptions): Promise<void> {
  const { registry, parts } = options
  const answers: Record<typeof HEALTH_PATHS[number], (reply: FastifyReply) => Promise<unknown>> = {
    '/_liveness': async () => ({ status: 'ok' }),
    '/_readiness': async (reply) => {
      const readiness = await checkReadiness(options)
      return reply.code(['ok', 'degraded'].includes(readiness.status) ? 200 : 503).send(readiness)
    },
    '/_health': async (reply) => {
      const report = reportHealth(await parts())
      return reply.code(healthStatusCode(report)).send(report)
    },
    '/metrics': async (reply) => reply.type(registry.contentType).send(await registry.metrics())
  }
  for (const path of HEALTH_PATHS) {
    app.get(path, { schema: { hide: true } }, async (_request, reply) => await answers[path](reply))
  }
}

async function checkReadiness ({ checks, phase }: HealthOptions): Promise<Readiness> {
  const names = Object.keys(checks) as ServiceName[]
  const entries = await Promise.all(names.map(async (name) => {
    const timeoutMs = name === 'api' ? API_READINESS_CHECK_MS : READINESS_CHECK_MS
    const { healthy } = await checkService(name, checks[name]!, timeoutMs)
    return [name, healthy ? 'ok' : 'unavailable'] as const
  }))
  const works = entries.every(([, state]) => state === 'ok') ? 'ok' : 'degraded'
  const now = phase()
  return { status: now === 'running' ? works : now, checks: Object.fromEntries(entries), pid: process.pid }
}

/** Puts the parts of a process together and names those that are stuck or behind. */
export function reportHealth (parts: readonly HealthPart[]): HealthReport {
  const failed = parts.filter(({ healthy }) => !healthy).map(({ name }) => name)
  const stuck = [...failed.filter((name) => SERVICES.has(name)), ...failed.filter((name) => !SERVICES.has(name))]
  const behind = parts.map(({ name, lagMs = 0 }) => ({ name, lagMs })).filter(({ lagMs }) => lagMs > BEHIND_MS)
    .sort((one, other) => other.lagMs - one.lagMs)
  const status = stuck.length > 0 ? 'degraded' : behind.length > 0 ? 'behind' : 'ok'
  return { status, stuck, behind, parts: [...parts] }
}

/**
 * The HTTP status of a report: 503 when something does not work. A process that is only behind works as it should, and
 * anyone who restarts it for that makes it later still.
 */
export function healthStatusCode ({ status }: Pick<HealthReport, 'status'>): 200 | 503 {
  return status === 'degraded' ? 503 : 200
}

/**
 * Asks a service whether it answers.
 *
 * @param check  Rejects when it does not. The text of its error is not passed on: it may name users and addresses.
 * @param timeoutMs  How long it may take.
 */
export async function checkService (
  name: string, check: () => Promise<unknown>, timeoutMs = CHECK_TIMEOUT_MS
): Promise<HealthPart> {
  const startedAt = performance.now()
  try {
    await withTimeout(timeoutMs, check())
    return { name, healthy: true, answerMs: Math.round(performance.now() - startedAt) }
  } catch (error) {
    return { name, healthy: false, lastError: errorCode(error) || `no answer within ${timeoutMs} ms` }
  }
}

/** Asks each of the services; one part each. */
export async function checkServices (checks: ServiceChecks): Promise<HealthPart[]> {
  return await Promise.all(Object.entries(checks).map(async ([name, check]) => await checkService(name, check)))
}

/** The ping of the ClickHouse client never rejects; a check does. */
export async function pingClickHouse (client: {
  ping: () => Promise<{ success: true } | { success: false, error: Error }>
}): Promise<void> {
  const result = await client.ping()
  if (!result.success) throw result.error
}
