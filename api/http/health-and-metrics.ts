import { type FastifyInstance } from 'fastify'
import { checkService, type HealthPart, healthStatusCode, READINESS_CHECK_MS, reportHealth } from '../../platform/health.ts'
import { type Metrics, type Registry } from '../../platform/metrics.ts'

/** Says whether one thing this process depends on answers. */
export type HealthCheck = () => Promise<unknown>

export interface HealthOptions {
  registry: Registry
  /** What the process depends on, by name. It goes on without any of them, and says that it is degraded. */
  checks: Record<string, HealthCheck>
  /** False until the process can serve at all; once true it stays true. */
  isReady: () => boolean
  /** True from the beginning of the shutdown: load balancers must look elsewhere first. */
  isShuttingDown: () => boolean
  /** Stages of the process itself, beside its dependencies. */
  parts: () => HealthPart[]
}

/**
 * `/_liveness`: the event loop answers. `/_readiness`: requests may be sent here, and which of its dependencies answer.
 * `/_health`: each of them and each stage with details, and which are stuck; 503 when one is. `/metrics`: Prometheus.
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
      .map(async ([name, check]) => await checkService(name, check)))
    const report = reportHealth([...checked, ...options.parts()])
    return await reply.code(healthStatusCode(report)).send(report)
  })

  app.get('/metrics', hide, async (request, reply) => {
    reply.type(options.registry.contentType)
    return await options.registry.metrics()
  })
}

interface Health {
  /** `degraded`: something it depends on is unavailable. */
  status: 'ok' | 'degraded' | 'starting' | 'shutting down'
  checks: Record<string, 'ok' | 'unavailable'>
}

async function readHealth ({ checks, isReady, isShuttingDown }: HealthOptions): Promise<Health> {
  const entries = await Promise.all(Object.entries(checks).map(async ([name, check]) =>
    [name, (await checkService(name, check, READINESS_CHECK_MS)).healthy ? 'ok' : 'unavailable'] as const))
  const works = entries.every(([, state]) => state === 'ok') ? 'ok' : 'degraded'
  const status = isShuttingDown() ? 'shutting down' : isReady() ? works : 'starting'
  return { status, checks: Object.fromEntries(entries) }
}

/** In seconds. Flag clients give up after 3 s; pages are expected in tens of milliseconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3, 10]

const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** Measures every request by route (never by path: ids would make a series each), method and status. */
export function observeRequests (app: FastifyInstance, metrics: Metrics): void {
  const duration = metrics.histogram('request_duration_seconds',
    'Time from the head of a request to the end of its answer.', BUCKETS, ['method', 'route', 'status'])
  // The series of the histogram begin with a route's first answer, so an alert on it would miss the first errors.
  const responses = metrics.counter('responses_total', 'Answers by class of their status, without those about health and metrics.', { status: STATUS_CLASSES })
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'unknown'
    duration.observe({ method: request.method, route, status: reply.statusCode }, reply.elapsedTime / 1000)
    // A probe that is told of a degraded process is no failed request.
    if (!route.startsWith('/_')) responses.inc({ status: `${Math.floor(reply.statusCode / 100)}xx` })
  })
}
