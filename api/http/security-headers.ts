import { type FastifyInstance } from 'fastify'

/**
 * What browsers are told about every answer of the API: take the type as it is said, show it in no frame, tell no
 * other site where it was, and (for everything but the page of documentation, which brings scripts of its own and says
 * so itself) run nothing in it.
 */
export function setSecurityHeaders (app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-content-type-options', 'nosniff')
    reply.header('x-frame-options', 'DENY')
    reply.header('referrer-policy', 'no-referrer')
    if (!request.url.startsWith('/docs')) {
      reply.header('content-security-policy', "default-src 'none'; frame-ancestors 'none'")
    }
    done()
  })
}
