import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AnswerError } from './app.ts'
import { HttpError } from '../../platform/errors.ts'
import type { Capture } from '../capture/capture.ts'
import { countAnswer, type IngestCounts } from '../capture/ingest-counts.ts'

export interface CaptureRoutesOptions {
  capture: Capture
  counts: IngestCounts
  answerError: AnswerError
}

/** Paths that SDKs send events to (docs/contract/sdks.md 1.1). Only `/engage` differs: it names the nameless. */
export const CAPTURE_PATHS = ['/capture', '/batch', '/e', '/i/v0/e', '/track', '/engage'] as const

const ACCEPTED = '{"status":1}'
const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * The capture endpoints, each with and without the slash at the end, for POST, GET (with `data=` in the query) and
 * OPTIONS; other methods are answered 405. Success is exactly 200 `{"status":1}`: browsers' SDKs retry on anything
 * else. Only `beacon=1` asks for 204.
 */
export async function captureRoutes (app: FastifyInstance, options: CaptureRoutesOptions): Promise<void> {
  const { capture, counts, answerError } = options
  // The body is read by the capture step itself, which knows more forms than content types.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.addHook('onRequest', allowOrigin)
  for (const path of CAPTURE_PATHS) {
    const handler = createHandler(path)
    for (const url of [path, `${path}/`]) {
      app.route({ method: ['GET', 'POST'], url, handler, exposeHeadRoute: false })
      app.route({ method: ['HEAD', 'PUT', 'PATCH', 'DELETE'], url, handler: refuse })
      app.options(url, (request, reply) => { allowPreflight(request, reply).type(JSON_TYPE).send(ACCEPTED) })
    }
  }

  function refuse (request: FastifyRequest, reply: FastifyReply): void {
    answerError(methodNotAllowed(request, reply), request, reply)
    countAnswer(counts, request.url.split('?', 1)[0]?.replace(/\/$/, '') ?? '', 405)
  }

  /**
   * Answers by hand rather than by a returned promise or an `onResponse` hook: for single events, what a framework
   * does around the handler is a good part of the cost.
   */
  function createHandler (path: string): (request: FastifyRequest, reply: FastifyReply) => void {
    const isEngage = path === '/engage'
    return function handler (request, reply) {
      const query = request.query as Record<string, unknown>
      capture({ raw: request.raw, sender: request, requestId: request.id, query, isEngage }).then(() => {
        const wantsNothing = query.beacon === '1' || query.beacon === 'true'
        countAnswer(counts, path, wantsNothing ? 204 : 200)
        if (wantsNothing) reply.code(204).send()
        else reply.header('content-type', JSON_TYPE).send(ACCEPTED)
      }, (error: unknown) => {
        answerError(error, request, reply)
        countAnswer(counts, path, reply.statusCode)
      })
    }
  }
}

const METHODS = 'GET, POST, OPTIONS'

/** The error for a method that capture does not know, with the header that says which it knows. */
export function methodNotAllowed (request: FastifyRequest, reply: FastifyReply): HttpError {
  reply.header('allow', METHODS)
  return new HttpError(405, 'invalid_request', 'method_not_allowed', `Method "${request.method}" not allowed.`)
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
    .header('access-control-allow-methods', METHODS)
    .header('access-control-max-age', PREFLIGHT_SECONDS)
}
