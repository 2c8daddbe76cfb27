import { type FastifyReply, type FastifyRequest } from 'fastify'

const PREFLIGHT_SECONDS = '86400'

/** Any page may ask for flags, with credentials, as SDKs in browsers do; the project key is public anyway. */
export async function allowOrigin (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { origin } = request.headers
  if (origin === undefined) return
  reply.header('access-control-allow-origin', origin)
  reply.header('access-control-allow-credentials', 'true')
  reply.header('vary', 'Origin')
}

/** Answers OPTIONS, which browsers send before a request with headers of its own. */
export async function answerPreflight (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const asked = request.headers['access-control-request-headers']
  if (asked !== undefined) reply.header('access-control-allow-headers', asked)
  await reply
    .header('access-control-allow-methods', 'GET, POST, OPTIONS')
    .header('access-control-max-age', PREFLIGHT_SECONDS)
    .header('allow', 'GET, HEAD, POST, OPTIONS')
    .code(204)
    .send()
}
