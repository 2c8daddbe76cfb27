import { type FastifyInstance } from 'fastify'
import { type Registry } from '../../platform/metrics.ts'

/** Says whether one thing this process depends on answers. */
export type HealthCheck = () => Promise<unknown>

export interface HealthOptions {
  registry: Registry
  /**
   * By name. `required` ones decide readiness; of the others the process can do without, as definitions are served
   * without ClickHouse.
   */
  checks: Record<string, { required: boolean, check: HealthCheck }>
  /** True from the beginning of the shutdown: load balancers must look elsewhere first. */
  isShuttingDown: () => boolean
}

/** An orchestrator asks every few seconds and must not pile up behind a dependency that hangs. */
const CHECK_TIMEOUT_MS = 2000

/**
 * `/_liveness`: the event loop answers. `/_readiness`: what it depends on answers, by name. `/_health`: the same with
 * 200 always, for people. `/metrics`: Prometheus.
 */
export async function healthRoutes (app: FastifyInstance, options: HealthOptions): Promise<void> {
  const hide = { schema: { hide: true } }

  app.get('/_liveness', hide, async () => ({ status: 'ok' }))

  app.get('/_readiness', hide, async (request, reply) => {
    const health = await readHealth(options)
    return await reply.code(health.status === 'ok' || health.status === 'degraded' ? 200 : 503).send(health)
  })

  app.get('/_health', hide, async () => await readHealth(options))

  app.get('/metrics', hide, async (request, reply) => {
    reply.type(options.registry.contentType)
    return await options.registry.metrics()
  })
}

interface Health {
  /** `degraded`: something optional is away. */
  status: 'ok' | 'degraded' | 'unavailable' | 'shutting down'
  checks: Record<string, 'ok' | 'unavailable'>
}

async function readHealth ({ checks, isShuttingDown }: HealthOptions): Promise<Health> {
  const entries = await Promise.all(Object.entries(checks).map(async ([name, { required, check }]) => {
    return { name, required, ok: await answers(check) }
  }))
  const failed = entries.filter(({ ok }) => !ok)
  const status = isShuttingDown()
    ? 'shutting down'
    : failed.length === 0 ? 'ok' : failed.some(({ required }) => required) ? 'unavailable' : 'degraded'
  return { status, checks: Object.fromEntries(entries.map(({ name, ok }) => [name, ok ? 'ok' : 'unavailable'])) }
}

async function answers (check: HealthCheck): Promise<boolean> {
  const timedOut = Promise.withResolvers<never>()
  const timer = setTimeout(() => timedOut.reject(new Error('no answer in time')), CHECK_TIMEOUT_MS)
  try {
    await Promise.race([check(), timedOut.promise])
    return true
  } catch {
    // The answer of the check is the name in the list; why is in the log of the component that uses it.
    return false
  } finally {
    clearTimeout(timer)
  }
}
