import { type FastifyInstance } from 'fastify'
import { healthStatusCode, reportHealth, type HealthPart } from '../../platform/health/health-report.ts'

export interface HealthRoutesOptions {
  /** False as soon as the process begins to shut down, so that load balancers turn away first. */
  isReady: () => boolean
  /** Read at each request of `/_health`. */
  parts: () => HealthPart[]
}

/**
 * `/_liveness`: the event loop answers. `/_readiness`: requests may be sent here; with the number of the process, as
 * several may share a port. `/_health`: each part by name and which are stuck; 503 when one is, although events are
 * taken as long as the spool has room.
 */
export async function healthRoutes (app: FastifyInstance, { isReady, parts }: HealthRoutesOptions): Promise<void> {
  app.get('/_liveness', async () => ({ status: 'ok' }))
  app.get('/_readiness', async (_request, reply) => {
    const ready = isReady()
    return await reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'shutting down', pid: process.pid })
  })
  app.get('/_health', async (_request, reply) => {
    const report = reportHealth(parts())
    return await reply.code(healthStatusCode(report)).send(report)
  })
}
