import { type FastifyInstance } from 'fastify'
import { API_READINESS_CHECK_MS, checkService, type HealthPart, healthStatusCode, reportHealth } from '../../platform/health.ts'
import { type Metrics } from '../../platform/metrics.ts'

export interface HealthRoutesOptions {
  /** False as soon as the process begins to shut down, so that load balancers turn away first. */
  isReady: () => boolean
  /** Base URL of the API tier, which serves what is not capture. */
  apiUrl: string
  /** Read at each request of `/_health`. */
  parts: () => HealthPart[]
  metrics: Metrics
}

/**
 * `/_liveness`: the event loop answers. `/_readiness`: requests may be sent here; with the number of the process, as
 * several may share a port, and whether the API behind it is ready. That takes no part in the status: events are
 * answered with 200 without the API, and a balancer that turned away would take that from clients too. `/_health`: each
 * part by name and which are stuck; 503 when one is, although events are taken as long as the spool has room.
 * `/metrics`: what Prometheus reads.
 */
export async function healthRoutes (
  app: FastifyInstance, { isReady, apiUrl, parts, metrics: { registry } }: HealthRoutesOptions
): Promise<void> {
  app.get('/_liveness', async () => ({ status: 'ok' }))
  app.get('/_readiness', async (_request, reply) => {
    const ready = isReady()
    const api = await checkService('api', async () => await askApi(apiUrl), API_READINESS_CHECK_MS)
    const works = api.healthy ? 'ok' : 'degraded'
    return await reply.code(ready ? 200 : 503).send({
      status: ready ? works : 'shutting down', checks: { api: api.healthy ? 'ok' : 'unavailable' }, pid: process.pid
    })
  })
  app.get('/_health', async (_request, reply) => {
    const report = reportHealth(parts())
    return await reply.code(healthStatusCode(report)).send(report)
  })
  app.get('/metrics', async (_request, reply) =>
    await reply.type(registry.contentType).send(await registry.metrics()))
}

async function askApi (apiUrl: string): Promise<void> {
  const response = await fetch(new URL('/_readiness', apiUrl), { signal: AbortSignal.timeout(API_READINESS_CHECK_MS) })
  // Read to its end, or the connection could not be used again.
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`the API answers ${response.status}`)
}
