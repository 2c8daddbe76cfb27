import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import { fieldsOf } from '../../engines/fields.ts'
import type { AnswerError } from './answer-error.ts'
import { allowedOrigin, allowOrigin, allowPreflight } from '../../platform/cross-origin.ts'
import { HttpError } from '../../engines/errors.ts'
import type { Capture, CaptureRequest } from '../capture/capture.ts'
import { countAnswer, type IngestCounts } from '../capture/ingest-counts.ts'
import type { NoteRefusals } from '../warnings/collect-warnings.ts'

export interface CaptureRoutesOptions {
  capture: Capture
  noteRefusal: NoteRefusals['noteRefusal']
  counts: IngestCounts
  answerError: AnswerError
}

/** Paths of events (docs/reference/contract/sdks.md 1.1). Only `/engage` differs: it names the nameless. */
export const CAPTURE_PATHS = ['/capture', '/batch', '/e', '/i/v0/e', '/i/v0/ai/batch', '/track', '/engage'] as const

const ACCEPTED = '{"status":1}'
const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * The capture endpoints, each with and without the slash at the end, for POST, GET (with `data=` in the query) and
 * OPTIONS; other methods are answered 405. Success is exactly 200 `{"status":1}`: browsers' SDKs retry on anything
 * else. Only `beacon=1` asks for 204.
 */
export async function captureRoutes (app: FastifyInstance, options: CaptureRoutesOptions): Promise<void> {
  const { capture, counts, noteRefusal, answerError } = options
  const atEndOfTurn = createEndOfTurn()
  // The body is read by the capture step itself, which knows more forms than content types.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.addHook('onRequest', (request, reply, done) => {
    allowOrigin(request, reply)
    done()
  })
  for (const path of CAPTURE_PATHS) {
    const take = createHandler(path)
    for (const url of [path, `${path}/`]) {
      app.route({ method: ['GET', 'POST'], url, onRequest: take, handler: refuseMethod, exposeHeadRoute: false })
      app.route({ method: ['HEAD', 'PUT', 'PATCH', 'DELETE'], url, handler: refuseMethod })
      app.options(url, (request, reply) => { allowPreflight(request, reply, METHODS).type(JSON_TYPE).send(ACCEPTED) })
    }
  }

  function refuseMethod (request: FastifyRequest, reply: FastifyReply): void {
    answerError(methodNotAllowed(request, reply), request, reply)
    countAnswer(counts, request.url.split('?', 1)[0]?.replace(/\/$/, '') ?? '', 405)
  }

  /**
   * Takes a request and answers it, as a hook before the framework would look at the body: for single events, what it
   * does between here and the bytes of the answer is a good part of the cost. Errors are answered through it.
   */
  function createHandler (path: string): onRequestHookHandler {
    const isEngage = path === '/engage'
    return function take (request, reply) {
      atEndOfTurn(() => {
        const query = fieldsOf(request.query)
        const captured: CaptureRequest = { raw: request.raw, sender: request, requestId: request.id, query, isEngage }
        const refuse = (error: unknown): void => {
          noteRefusal(error, captured)
          answerError(error, request, reply)
          countAnswer(counts, path, reply.statusCode)
        }
        try {
          capture(captured).then(() => {
            const wantsNothing = query.beacon === '1' || query.beacon === 'true'
            countAnswer(counts, path, wantsNothing ? 204 : 200)
            accept(request, reply, wantsNothing)
          }, refuse)
        } catch (error) {
          refuse(error)
        }
      })
    }
  }

  /** Writes head and body at once, past the framework. */
  function accept ({ headers: { origin } }: FastifyRequest, reply: FastifyReply, wantsNothing: boolean): void {
    const head = wantsNothing ? [] : ['content-type', JSON_TYPE, 'content-length', String(ACCEPTED.length)]
    if (origin !== undefined) head.push(...allowedOrigin(origin))
    // Else the next request would come on a connection of a process that ends.
    if (!app.server.listening) head.push('connection', 'close')
    reply.hijack()
    reply.raw.writeHead(wantsNothing ? 204 : 200, head)
    if (wantsNothing) reply.raw.end()
    else reply.raw.end(ACCEPTED, 'latin1')
  }
}

/**
 * Runs what it is given once everything that has arrived is parsed, all of it in one go. A small body mostly comes with
 * the head of its request, so it is whole by then and need not be waited for piece by piece.
 */
function createEndOfTurn (): (run: () => void) => void {
  let waiting: (() => void)[] = []
  function runAll (): void {
    const arrived = waiting
    waiting = []
    for (const run of arrived) run()
  }
  return function atEndOfTurn (run) {
    if (waiting.push(run) === 1) setImmediate(runAll)
  }
}

const METHODS = 'GET, POST, OPTIONS'

/** The error for a method that a path does not know, with the header that says which it knows. */
export function methodNotAllowed (request: FastifyRequest, reply: FastifyReply, methods = METHODS): HttpError {
  reply.header('allow', methods)
  return new HttpError(405, 'invalid_request', 'method_not_allowed', `Method "${request.method}" not allowed.`)
}
