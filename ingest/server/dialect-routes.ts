import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import { allowOrigin, allowPreflight } from '../../platform/cross-origin.ts'
import type { CaptureRequest } from '../capture/capture.ts'
import { countAnswer } from '../capture/ingest-counts.ts'
import type { CapturedEvent } from '../capture/request-sink.ts'
import type { DialectRequest } from '../dialects/dialect.ts'
import { parseTimestamp } from '../../engines/parse-timestamp.ts'
import { type CaptureRoutesOptions, methodNotAllowed } from './capture-routes.ts'

/** A path whose events come in another form than that of PostHog's SDKs. */
interface Endpoint {
  path: string
  /** @throws {HttpError} 401 or 400 for headers without which no body could be taken. */
  readHeaders (headers: IncomingHttpHeaders): DialectRequest
  /** The body of a success. */
  answer (results: readonly CapturedEvent[]): string
}

/** Segment's paths, and what the only message of a body is there; empty for batches. Pages use the short names. */
const SEGMENT_TYPES: Record<string, string> = {
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

const ENDPOINTS: readonly Endpoint[] = [
  // Events of language models have a path of their own for SDKs that send them apart; here it is the same.
  ...['/i/v1/analytics/events', '/i/v1/ai/events'].map((path) => ({
    path, readHeaders: readCaptureV1, answer: describeResults
  })),
  { path: '/i/v0/ai', readHeaders: readMultipart, answer: () => '{"status":1}' },
  ...Object.entries(SEGMENT_TYPES).map(([path, eventType]) => ({
    path, readHeaders: (headers: IncomingHttpHeaders) => readSegment(headers, eventType), answer: () => '{"success":true}'
  }))
]

export const DIALECT_PATHS = ENDPOINTS.map(({ path }) => path)

const JSON_TYPE = 'application/json; charset=utf-8'
const METHODS = 'POST, OPTIONS'

/** Seconds after which events of which a message could not be kept may come again. */
const RETRY_AFTER_SECONDS = '1'

/** Longer ids of requests are cut: they are only echoed. */
const MAX_REQUEST_ID = 200

/**
 * Capture V1 (docs/reference/contract/sdks.md 1.9), events of language models with their large properties as parts of a
 * form (1.10), and Segment's tracking API (docs/send/connect-sdk.md). The key is in a header, or in Segment's bodies
 * for pages; everything between headers and answer is the same as for the other paths.
 */
export async function dialectRoutes (app: FastifyInstance, options: CaptureRoutesOptions): Promise<void> {
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
    countAnswer(counts, request.routeOptions.url?.replace(/\/$/, '') ?? '', reply.statusCode)
  })
  for (const { path, readHeaders, answer } of ENDPOINTS) {
    for (const url of [path, `${path}/`]) {
      app.options(url, async (request, reply) => await allowPreflight(request, reply, METHODS).code(204).send())
      app.route({ method: ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'], url, handler: (request, reply) => { throw methodNotAllowed(request, reply, METHODS) } })
      app.post(url, async (request, reply) => {
        const { raw, id: requestId, headers } = request
        const captured: CaptureRequest = {
          raw, sender: request, requestId, query: {}, isEngage: false, dialect: readHeaders(headers)
        }
        try {
          await capture(captured)
        } catch (error) {
          noteRefusal(error, captured)
          throw error
        }
        const results = captured.results ?? []
        countAnswer(counts, path, 200)
        if (results.some(({ isLost }) => isLost)) reply.header('retry-after', RETRY_AFTER_SECONDS)
        return await reply.type(JSON_TYPE).send(answer(results))
      })
    }
  }
}

function readCaptureV1 (headers: IncomingHttpHeaders): DialectRequest {
  const apiKey = readBearer(headers)
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

/** Without a key the capture step refuses the request, as it does with a wrong one. */
function readMultipart (headers: IncomingHttpHeaders): DialectRequest {
  return { name: 'multipart', apiKey: readBearer(headers), attemptSentAt: null, sdk: '', eventType: '' }
}

function readSegment (headers: IncomingHttpHeaders, eventType: string): DialectRequest {
  const [, credentials = ''] = /^Basic\s+([\w+/=-]+)\s*$/i.exec(headers.authorization ?? '') ?? []
  // The write key is the user; the password is empty.
  const [apiKey = ''] = Buffer.from(credentials, 'base64').toString().split(':', 1)
  return { name: 'segment', apiKey: apiKey.trim(), attemptSentAt: null, sdk: '', eventType }
}

function readBearer ({ authorization = '' }: IncomingHttpHeaders): string {
  return /^Bearer\s+(\S+)\s*$/i.exec(authorization)?.[1] ?? ''
}

/** The answer of Capture V1: a client that finds no entry of an event takes it for stored. */
function describeResults (results: readonly CapturedEvent[]): string {
  return `{"results":{${results.map(describeResult).join(',')}}}`
}

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
