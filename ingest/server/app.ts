import { fastify, type FastifyInstance, type FastifyReply } from 'fastify'
import { allowUnserved } from '../../platform/cross-origin.ts'
import { HttpError } from '../../engines/errors.ts'
import { type HealthOptions, healthRoutes } from '../../platform/health-and-readiness.ts'
import { answerClientError, answerHalfClosed, closeUnusedConnections, discardRest, discardRests, MAX_HEADER_BYTES } from '../../platform/http-server.ts'
import { normaliseContentType } from '../../engines/body/read-body.ts'
import type { Logger } from '../../platform/logger.ts'
import type { NoteRefusals } from '../warnings/collect-warnings.ts'
import { type BrowserSdkOptions, browserSdkRoutes } from '../browser-sdk/browser-sdk-routes.ts'
import { createAnswerError } from './answer-error.ts'
import { CAPTURE_PATHS, captureRoutes, type CaptureRoutesOptions, methodNotAllowed } from './capture-routes.ts'
import { dialectRoutes } from './dialect-routes.ts'
import { forwardToApi } from './forward-to-api.ts'

export interface IngestAppOptions extends Omit<CaptureRoutesOptions, 'answerError'> {
  browserSdk: BrowserSdkOptions
  health: HealthOptions
  logger: Logger
  /** Where everything that is not capture goes. */
  apiUrl: string
  noteUnknownPath: NoteRefusals['noteUnknownPath']
  /** Proxies whose forwarded headers are believed: addresses and ranges, comma separated; empty: none. */
  trustedProxies: string
  /** Fires when the process ends. */
  ending?: AbortSignal
  /** Prefix of request ids, different in each process. */
  processId: string
}

/** A client that stops sending in the middle of a request is given up after this long. */
const REQUEST_TIMEOUT_MS = 60_000

/** Longer than the idle time of common load balancers (60 s): they close first and never hit a closing socket. */
const KEEP_ALIVE_MS = 65_000

/** How often slow clients are looked for; Node's own 30 s would add half to the time that they are given. */
const CHECK_CONNECTIONS_MS = 5000

/** Builds the HTTP side of ingest. It never listens: the caller does. */
export async function buildIngestApp (options: IngestAppOptions): Promise<FastifyInstance> {
  let requests = 0
  const answerError = createAnswerError(options.logger)
  const app = fastify({
    // A logger here would be given a child for each request. Metrics count requests; errors are logged below.
    logger: false,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: { connectionsCheckingInterval: CHECK_CONNECTIONS_MS, maxHeaderSize: MAX_HEADER_BYTES },
    clientErrorHandler: answerClientError,
    // What goes wrong before a route is found, such as a path that does not decode.
    frameworkErrors: ({ statusCode = 400 }, request, reply) => {
      discardRest(request.raw)
      if (allowUnserved(request, reply as FastifyReply)) return
      const known = new HttpError(statusCode, 'invalid_request', 'invalid_request', 'The request could not be read.')
      answerError(known, request, reply as FastifyReply)
    },
    // Anybody can send the headers of proxies.
    trustProxy: options.trustedProxies === '' ? false : options.trustedProxies,
    // A request during shutdown is answered as usual, with `Connection: close`.
    return503OnClosing: false,
    genReqId: () => `${options.processId}-${(requests++).toString(36)}`,
    routerOptions: { ignoreDuplicateSlashes: true, maxParamLength: 500 }
  })
  // Node checks the shorter of the two only when it is this one.
  app.server.headersTimeout = REQUEST_TIMEOUT_MS
  answerHalfClosed(app.server)
  closeUnusedConnections(app.server)
  app.setErrorHandler(answerError)
  app.addHook('onRequest', (request, reply, done) => {
    // Not before: the next connection would come here again.
    if (!app.server.listening) reply.header('connection', 'close')
    normaliseContentType(request.raw.headers)
    done()
  })
  // A capture that succeeds has read its body, and is answered past the framework.
  discardRests(app)
  // Requests that neither a route nor the API takes, such as uncommon methods.
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]?.replace(/\/+/g, '/').replace(/\/$/, '')
    if (CAPTURE_PATHS.some((known) => known === path)) throw methodNotAllowed(request, reply)
    throw new HttpError(404, 'invalid_request', 'not_found', 'Not found.')
  })
  await app.register(healthRoutes, options.health)
  await app.register(captureRoutes, { ...options, answerError })
  await app.register(dialectRoutes, { ...options, answerError })
  await app.register(browserSdkRoutes, options.browserSdk)
  const { apiUrl, noteUnknownPath, ending } = options
  await app.register(forwardToApi, { apiUrl, noteUnknownPath, logger: options.logger, ending })
  return app
}
