import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { addAbortSignal, PassThrough, type Readable } from 'node:stream'
import proxy, { type FastifyHttpProxyOptions } from '@fastify/http-proxy'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { allowOrigin, allowUnserved } from '../../platform/cross-origin.ts'
import { HttpError, toHttpErrorBody } from '../../engines/errors.ts'
import { endWithClient } from '../../platform/http-server.ts'
import type { Logger } from '../../platform/logger.ts'
import { FORWARDED } from '../../schema/wire/forwarded-request.ts'
import type { NoteRefusals } from '../warnings/collect-warnings.ts'
import { CAPTURE_PATHS } from './capture-routes.ts'

/** Paths of the reference that Millrace does not serve; a clear answer beats a puzzling one from behind. */
const NOT_SERVED = ['/s', '/i/v0/ai/otel', '/i/v1/logs', '/i/v1/metrics']

/** Here SDKs take any JSON for the payload of a flag, whatever the status: errors have no body, as those of the API. */
const REMOTE_CONFIG = /\/remote_config\/?(?:\?|$)/

/** Answers that are read while they are made: nobody sends a request for one and closes before it has come. */
const STREAMED = /^(?:text\/event-stream|application\/x-ndjson)/

const OF_THE_API = /^\/+api(?:\/|$)/
const OF_THE_CONSOLE = /^\/+console(?:\/|$)/

/** How clients of management say who they are; project keys, which some SDKs send as Bearer, begin with `phc_`. */
const PERSONAL_KEY = { authorization: /^Bearer +(?!phc_)/i, query: /[?&]personal_api_key=/, cookie: /\bmillrace_session=/ }

/** An API without an answer for this long is stuck: its slowest, results of experiments, take up to 60 s. */
const SILENCE_MS = 75_000

/** Flags are computed in milliseconds, and the page or server that asks waits for a few seconds. */
const FLAG_PATHS = ['/flags', '/decide', '/ofrep', '/api/feature_flag/local_evaluation']
const FLAGS_SILENCE_MS = 10_000

/** Includes finding its address: a resolver asks again after 5 s when the first question or its answer was lost. */
const CONNECT_MS = 7000

interface ForwardOptions {
  apiUrl: string
  noteUnknownPath: NoteRefusals['noteUnknownPath']
  logger: Logger
  ending?: AbortSignal | undefined
  flagsSilenceMs?: number
}

/**
 * Forwards everything that is not capture to the API tier, so that SDKs and users need only one origin.
 *
 * @param options.apiUrl  Base URL of the API tier. While it is unavailable the answer is 503.
 * @param options.noteUnknownPath  Called for a POST that the API does not know: an SDK may have sent events there.
 * @param options.logger  Gets the cause of each 503, which the client is not shown.
 * @param options.flagsSilenceMs  Requests for flags are answered with 503 after so long without an answer of the API.
 * @param options.ending  Fires when the process ends: answers without an end, such as the live feed, end then.
 */
export async function forwardToApi (
  app: FastifyInstance, { apiUrl, noteUnknownPath, logger, ending, flagsSilenceMs = FLAGS_SILENCE_MS }: ForwardOptions
): Promise<void> {
  await app.register(refuseNotServed)
  // The framework's own parser for text would read compressed bodies as characters; browsers send those as text/plain.
  app.removeAllContentTypeParsers()
  const options: FastifyHttpProxyOptions = {
    upstream: apiUrl,
    undici: { connections: 64, pipelining: 1, connectTimeout: CONNECT_MS, headersTimeout: SILENCE_MS },
    // Else a GET that the API answers with 503 is asked ten times more.
    retryMethods: [],
    preHandler (request, _reply, done) {
      if (request.body === request.raw) request.body = detachBody(request.raw)
      done()
    },
    replyOptions: {
      // The API builds absolute links, which must lead here, and believes what we say of the client. What the request
      // says itself was believed only if it came from a trusted proxy.
      rewriteRequestHeaders: (request, { expect: _, ...headers }) => ({
        // This server already sent 100 Continue to the client; the HTTP client refuses the header.
        ...(request as FastifyRequest).ips?.[1] === undefined ? withoutLogin(headers) : headers,
        [FORWARDED]: '1',
        'x-forwarded-for': request.ip,
        'x-forwarded-host': request.host,
        'x-forwarded-proto': request.protocol
      }),
      // They speak of the connection to the API: passed on, they would keep open what the client wants closed, or what
      // ends with this process.
      rewriteHeaders: ({ connection: _, 'keep-alive': __, ...headers }) => headers,
      onResponse (request, reply, answer) {
        const { stream } = answer as unknown as { stream: Readable }
        const contentType = String(reply.getHeader('content-type'))
        if (reply.statusCode === 404 && request.method === 'POST') {
          const [path = ''] = request.url.split('?', 1)
          if (isMeantForEvents(path, request)) noteUnknownPath(path)
        }
        if (STREAMED.test(contentType)) endWithClient((reply as FastifyReply).raw)
        if (ending !== undefined && contentType.startsWith('text/event-stream')) addAbortSignal(ending, stream)
        reply.send(stream)
      },
      async onError (reply, { error }) {
        const unavailable = new HttpError(503, 'server_error', 'api_unavailable', 'The API is unavailable. Try again.', { cause: error })
        // No path: it may contain keys.
        logger.warn({ err: error.cause ?? error, requestId: reply.request.id }, 'the API did not answer a forwarded request; its client got 503')
        // A page reads why its flags did not come; the answer says nothing else.
        allowOrigin(reply.request as FastifyRequest, reply as FastifyReply)
        reply.code(503).header('retry-after', '5')
        if (REMOTE_CONFIG.test(reply.request.url)) reply.header('millrace-error', unavailable.code).send()
        else reply.send(toHttpErrorBody(unavailable))
      }
    }
  }
  await app.register(proxy, options)
  const replyOptions = { ...options.replyOptions, timeout: flagsSilenceMs }
  for (const prefix of FLAG_PATHS) {
    await app.register(proxy, { ...options, prefix, rewritePrefix: prefix, replyOptions })
  }
}

/** Only a trusted proxy, which adds the address of its client, says who has logged in. */
function withoutLogin (headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith('remote-')))
}

/**
 * Whether an SDK may have sent events to a path that nobody serves. Below `/api` it may have, as its host was given
 * with that path, unless the request shows a personal key: then it is a typo of a client of management.
 */
function isMeantForEvents (path: string, request: Pick<FastifyRequest, 'url' | 'headers'>): boolean {
  if (CAPTURE_PATHS.some((known) => path.endsWith(known) || path.endsWith(`${known}/`))) return true
  if (OF_THE_CONSOLE.test(path)) return false
  return !OF_THE_API.test(path) || !hasPersonalKey(request)
}

function hasPersonalKey ({ url, headers }: Pick<FastifyRequest, 'url' | 'headers'>): boolean {
  return PERSONAL_KEY.authorization.test(headers.authorization ?? '') || PERSONAL_KEY.query.test(url) ||
    PERSONAL_KEY.cookie.test(headers.cookie ?? '')
}

async function refuseNotServed (app: FastifyInstance): Promise<void> {
  // The body is never read: the answer does not depend on it.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  for (const path of NOT_SERVED) {
    for (const url of [path, `${path}/`]) {
      app.all(url, (request, reply) => {
        if (allowUnserved(request, reply)) return
        throw new HttpError(404, 'invalid_request', 'not_found', 'Session recordings, logs, metrics and traces are not served here.')
      })
    }
  }
}

/** Smaller bodies fit the buffers of the system, so they have left the client when forwarding fails. */
const LARGE_BYTES = 16_384

/**
 * The body of a request as a stream that may be destroyed without harm to the request.
 *
 * An HTTP client destroys the body it was given when its server disconnects. Destroying the request itself would stop
 * reading it, and a client that sends everything before it reads the answer would wait until the request times out.
 *
 * @returns the request itself when its body is small: then no client waits.
 */
function detachBody (raw: IncomingMessage): Readable {
  if (Number(raw.headers['content-length'] ?? Infinity) <= LARGE_BYTES) return raw
  const body = new PassThrough()
  raw.pipe(body)
  raw.once('close', () => { if (!raw.complete) body.destroy(new Error('the client closed the connection')) })
  // Readers of the body get the error; nobody else needs it.
  body.on('error', () => {})
  return body
}
