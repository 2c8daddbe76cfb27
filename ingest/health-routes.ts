import { type FastifyInstance } from 'fastify'

export interface HealthRoutesOptions {
  /** False as soon as the process begins to shut down, so that load balancers turn away first. */
  isReady: () => boolean
}

/** `/_liveness`: the event loop answers. `/_readiness`: requests may be sent here. */
export async function healthRoutes (app: FastifyInstance, { isReady }: HealthRoutesOptions): Promise<void> {
  app.get('/_liveness', async () => ({ status: 'ok' }))
  app.get('/_readiness', async (_request, reply) => {
    const ready = isReady()
    return await reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'shutting down' })
  })
}
