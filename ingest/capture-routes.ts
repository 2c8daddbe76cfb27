import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { type Capture } from './capture.ts'
import { type IngestCounts } from './ingest-counts.ts'

export interface CaptureRoutesOptions {
  capture: Capture
  counts: IngestCounts
}

/** Every path an SDK sends events to (sdk-compat 1.1); all do the same, except that `/engage` names the nameless. */
export const CAPTURE_PATHS = ['/capture', '/batch', '/e', '/i/v0/e', '/track', '/engage'] as const

const ACCEPTED = '{"status":1}'
const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * The capture endpoints, each with and without the slash at the end, for POST, GET (with `data=` in the query) and
 * OPTIONS. Success is exactly 200 `{"status":1}`: browsers' SDKs retry on anything else. Only `beacon=1` asks for 204.
 */
export async function captureRoutes (app: FastifyInstance, { capture, counts }: CaptureRoutesOptions): Promise<void> {
  // The body is read by the capture step itself, which knows more forms than content types.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.addHook('onRequest', allowOrigin)
  app.addHook('onResponse', async (request, reply) => {
    const answer = `${request.routeOptions.url ?? ''} ${reply.statusCode}`
    counts.requests.set(answer, (counts.requests.get(answer) ?? 0) + 1)
  })

  for (const path of CAPTURE_PATHS) {
    for (const url of [path, `${path}/`]) {
      app.route({ method: ['GET', 'POST'], url, handler, exposeHeadRoute: false })
      app.options(url, (request, reply) => { allowPreflight(request, reply).type(JSON_TYPE).send(ACCEPTED) })
    }
  }

  async function handler (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const query = request.query as Record<string, unknown>
    await capture({
      raw: request.raw,
      requestId: request.id,
      query,
      isEngage: request.routeOptions.url?.startsWith('/engage') ?? false
    })
    if (query.beacon === '1' || query.beacon === 'true') return await reply.code(204).send()
    return await reply.header('content-type', JSON_TYPE).send(ACCEPTED)
  }
}

/** Any page may send events, with credentials, as SDKs in browsers do; the project key is public anyway. */
function allowOrigin (request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const origin = request.headers.origin
  if (origin !== undefined) {
    reply.header('access-control-allow-origin', origin)
    reply.header('access-control-allow-credentials', 'true')
    reply.header('vary', 'Origin')
  }
  done()
}

const PREFLIGHT_SECONDS = '86400'

function allowPreflight (request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const asked = request.headers['access-control-request-headers']
  if (asked !== undefined) reply.header('access-control-allow-headers', asked)
  return reply
    .header('access-control-allow-methods', 'GET, POST, OPTIONS')
    .header('access-control-max-age', PREFLIGHT_SECONDS)
}
