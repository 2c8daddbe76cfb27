import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { allowOrigin, allowPreflight } from '../../platform/cross-origin.ts'
import { HttpError, toHttpErrorBody } from '../../engines/errors.ts'
import type { CaptureRequest } from '../capture/capture.ts'
import type { CapturedEvent } from '../capture/request-sink.ts'
import { countAnswer } from '../capture/ingest-counts.ts'
import type { DialectRequest } from '../dialects/dialect.ts'
import { parseTimestamp } from '../normalise/timestamps.ts'
import type { CaptureRoutesOptions } from './capture-routes.ts'

/** Events of language models have a path of their own for SDKs that send them apart; here it is the same. */
export const CAPTURE_V1_PATHS = ['/i/v1/analytics/events', '/i/v1/ai/events'] as const

const JSON_TYPE = 'application/json; charset=utf-8'

/** Seconds after which events of which a message could not be kept may come again. */
const RETRY_AFTER_SECONDS = '1'

/** Longer ids of requests are cut: they are only echoed. */
const MAX_REQUEST_ID = 200

/**
 * Capture V1 (docs/contract/sdks.md 1.9): the key in `Authorization`, the time of each attempt in a header, and an
 * answer that names what became of each event. Everything between is the same as for the other paths.
 */
export async function captureV1Routes (app: FastifyInstance, options: CaptureRoutesOptions): Promise<void> {
  const { capture, counts, noteRefusal, answerError } = options
  // The body is read by the capture step itself.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.addHook('onRequest', async (request, reply) => {
    allowOrigin(request, reply)
    const requestId = request.headers['posthog-request-id']
    if (typeof requestId === 'string') {
      reply.header('posthog-request-id', requestId.slice(0, MAX_REQUEST_ID))
      reply.header('access-control-expose-headers', 'posthog-request-id, retry-after')
    }
  })
  app.setErrorHandler((error, request, reply) => {
    answerError(error, request, reply)
    countAnswer(counts, pathOf(request), reply.statusCode)
  })
  for (const url of CAPTURE_V1_PATHS.flatMap((path) => [path, `${path}/`])) {
    app.options(url, async (request, reply) => await allowPreflight(request, reply, 'POST, OPTIONS').code(204).send())
    app.route({ method: ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'], url, handler: refuseMethod })
    app.post(url, async (request, reply) => {
      const dialect = readHeaders(request)
      const { raw, id: requestId } = request
      const captured: CaptureRequest = { raw, sender: request, requestId, query: {}, isEngage: false, dialect }
      try {
        await capture(captured)
      } catch (error) {
        noteRefusal(error, captured)
        throw error
      }
      const results = captured.results ?? []
      countAnswer(counts, pathOf(request), 200)
      if (results.some(({ isLost }) => isLost)) reply.header('retry-after', RETRY_AFTER_SECONDS)
      return await reply.type(JSON_TYPE).send(`{"results":{${results.map(describeResult).join(',')}}}`)
    })
  }
}

/** Of the route, without the slash at the end. */
function pathOf ({ routeOptions: { url = '' } }: FastifyRequest): string {
  return url.replace(/\/$/, '')
}

/** @throws {HttpError} 401 without a key, 400 for a time that is none. */
function readHeaders ({ headers }: FastifyRequest): DialectRequest {
  const [, apiKey = ''] = /^Bearer\s+(\S+)\s*$/i.exec(headers.authorization ?? '') ?? []
  if (apiKey === '') {
    throw new HttpError(401, 'authentication_error', 'invalid_api_key', 'Send the project API key as "Authorization: Bearer <key>".')
  }
  const sentAt = headers['posthog-request-timestamp']
  const attemptSentAt = typeof sentAt === 'string' ? parseTimestamp(sentAt) : null
  if (sentAt !== undefined && attemptSentAt === null) {
    throw new HttpError(400, 'validation_error', 'invalid_timestamp', 'PostHog-Request-Timestamp must be an RFC 3339 time.', {
      attr: 'posthog-request-timestamp'
    })
  }
  const sdk = headers['posthog-sdk-info']
  return { name: 'capture-v1', apiKey, attemptSentAt, sdk: typeof sdk === 'string' ? sdk : '', eventType: '' }
}

/** The entry of an event: a client that finds none takes its event for stored. */
function describeResult ({ uuid, drop, detail, isLost }: CapturedEvent): string {
  const result = isLost ? 'retry' : drop !== null ? 'drop' : detail === undefined ? 'ok' : 'warning'
  const details = isLost ? 'not_persisted' : detail ?? (drop === null ? undefined : V1_DETAILS[drop] ?? 'rejected')
  return `${JSON.stringify(uuid)}:${JSON.stringify({ result, details })}`
}

/** The words of V1 for what only the steps after the dialect find. */
const V1_DETAILS: Partial<Record<string, string>> = {
  missing_event_name: 'missing_event_name',
  missing_distinct_id: 'missing_distinct_id',
  invalid_properties: 'malformed_event_properties'
}

function refuseMethod (request: FastifyRequest, reply: FastifyReply): void {
  const error = new HttpError(405, 'invalid_request', 'method_not_allowed', `Method "${request.method}" not allowed.`)
  reply.header('allow', 'POST, OPTIONS').code(405).type(JSON_TYPE).send(toHttpErrorBody(error))
}
