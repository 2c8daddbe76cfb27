import type { FastifyInstance, FastifyRequest } from 'fastify'
import { allowOrigin, allowPreflight } from '../../platform/cross-origin.ts'
import type { CaptureRequest } from '../capture/capture.ts'
import { countAnswer } from '../capture/ingest-counts.ts'
import type { DialectRequest } from '../dialects/dialect.ts'
import type { CaptureRoutesOptions } from './capture-routes.ts'

/** Segment's paths, and what the only message of a body is there; empty for batches. Pages use the short names. */
const EVENT_TYPES: Record<string, string> = {
  '/v1/batch': '',
  '/v1/import': '',
  '/v1/track': 'track',
  '/v1/identify': 'identify',
  '/v1/page': 'page',
  '/v1/screen': 'screen',
  '/v1/group': 'group',
  '/v1/alias': 'alias',
  '/v1/t': 'track',
  '/v1/i': 'identify',
  '/v1/p': 'page',
  '/v1/s': 'screen',
  '/v1/g': 'group',
  '/v1/a': 'alias'
}

export const SEGMENT_PATHS = Object.keys(EVENT_TYPES)

/**
 * The endpoints of Segment's tracking API (docs/segment.md), with the write key as project key: in basic
 * authentication, as its SDKs for servers send it, or as `writeKey` in the body, as those for pages do.
 */
export async function segmentRoutes (app: FastifyInstance, options: CaptureRoutesOptions): Promise<void> {
  const { capture, counts, noteRefusal, answerError } = options
  // The body is read by the capture step itself.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.addHook('onRequest', async (request, reply) => allowOrigin(request, reply))
  for (const [path, eventType] of Object.entries(EVENT_TYPES)) {
    for (const url of [path, `${path}/`]) {
      app.options(url, async (request, reply) => await allowPreflight(request, reply, 'POST, OPTIONS').code(204).send())
      app.post(url, async (request, reply) => {
        const dialect = readHeaders(request, eventType)
        const { raw, id: requestId } = request
        const captured: CaptureRequest = { raw, sender: request, requestId, query: {}, isEngage: false, dialect }
        try {
          await capture(captured)
          countAnswer(counts, path, 200)
          return await reply.send({ success: true })
        } catch (error) {
          noteRefusal(error, captured)
          answerError(error, request, reply)
          countAnswer(counts, path, reply.statusCode)
          return reply
        }
      })
    }
  }
}

function readHeaders ({ headers }: FastifyRequest, eventType: string): DialectRequest {
  const [, credentials = ''] = /^Basic\s+([\w+/=-]+)\s*$/i.exec(headers.authorization ?? '') ?? []
  // The write key is the user; the password is empty.
  const [apiKey = ''] = Buffer.from(credentials, 'base64').toString().split(':', 1)
  return { name: 'segment', apiKey: apiKey.trim(), attemptSentAt: null, sdk: '', eventType }
}
