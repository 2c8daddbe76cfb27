import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { allowOrigin, allowPreflight } from '../../platform/cross-origin.ts'
import type { CaptureRequest } from '../capture/capture.ts'
import { countAnswer } from '../capture/ingest-counts.ts'
import type { DialectRequest } from '../dialects/dialect.ts'
import { type CaptureRoutesOptions, methodNotAllowed } from './capture-routes.ts'

export const MULTIPART_PATH = '/i/v0/ai'

/**
 * Events of language models, one a request, whose large properties come as parts of a form (docs/contract/sdks.md
 * 1.10), with the project key as bearer. The answer is 200 `{"status":1}` once the event is durable.
 */
export async function multipartRoutes (app: FastifyInstance, options: CaptureRoutesOptions): Promise<void> {
  const { capture, counts, noteRefusal, answerError } = options
  // The body is read by the capture step itself.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.addHook('onRequest', async (request, reply) => allowOrigin(request, reply))
  app.setErrorHandler((error, request, reply) => {
    answerError(error, request, reply)
    countAnswer(counts, MULTIPART_PATH, reply.statusCode)
  })
  for (const url of [MULTIPART_PATH, `${MULTIPART_PATH}/`]) {
    app.options(url, async (request, reply) => await allowPreflight(request, reply, 'POST, OPTIONS').code(204).send())
    app.route({ method: ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'], url, handler: refuseMethod })
    app.post(url, async (request, reply) => {
      const { raw, id: requestId } = request
      const dialect = readKey(request)
      const captured: CaptureRequest = { raw, sender: request, requestId, query: {}, isEngage: false, dialect }
      try {
        await capture(captured)
      } catch (error) {
        noteRefusal(error, captured)
        throw error
      }
      countAnswer(counts, MULTIPART_PATH, 200)
      return await reply.send({ status: 1 })
    })
  }
}

function refuseMethod (request: FastifyRequest, reply: FastifyReply): void {
  throw methodNotAllowed(request, reply, 'POST, OPTIONS')
}

/** Without a key the capture step refuses the request, as it does with a wrong one. */
function readKey ({ headers }: FastifyRequest): DialectRequest {
  const [, apiKey = ''] = /^Bearer\s+(\S+)\s*$/i.exec(headers.authorization ?? '') ?? []
  return { name: 'multipart', apiKey, attemptSentAt: null, sdk: '', eventType: '' }
}
