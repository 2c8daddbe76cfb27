import { type FastifyInstance } from 'fastify'
import { checkService } from '../../platform/health/check-service.ts'
import { reportHealth, type HealthPart } from '../../platform/health/health-report.ts'
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
  /** Stages of the process itself, beside its dependencies. */
  parts: () => HealthPart[]
}

/**
 * `/_liveness`: the event loop answers. `/_readiness`: what it depends on answers, by name. `/_health`: each of
 * them and each stage with details, and which are stuck; 503 when one is. `/metrics`: Prometheus.
 */
export async function healthRoutes (app: FastifyInstance, options: HealthOptions): Promise<void> {
  const hide = { schema: { hide: true } }

  app.get('/_liveness', hide, async () => ({ status: 'ok' }))

  app.get('/_readiness', hide, async (request, reply) => {
    const health = await readHealth(options)
    return await reply.code(health.status === 'ok' || health.status === 'degraded' ? 200 : 503).send(health)
  })

  app.get('/_health', hide, async (request, reply) => {
    const checked = await Promise.all(Object.entries(options.checks)
      .map(async ([name, { check }]) => await checkService(name, check)))
    const report = reportHealth([...checked, ...options.parts()])
    return await reply.code(report.status === 'ok' ? 200 : 503).send(report)
  })

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
    return { name, required, ok: (await checkService(name, check)).healthy }
  }))
  const failed = entries.filter(({ ok }) => !ok)
  const status = isShuttingDown()
    ? 'shutting down'
    : failed.length === 0 ? 'ok' : failed.some(({ required }) => required) ? 'unavailable' : 'degraded'
  return { status, checks: Object.fromEntries(entries.map(({ name, ok }) => [name, ok ? 'ok' : 'unavailable'])) }
}
