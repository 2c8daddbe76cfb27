import { fastify, type FastifyInstance, type FastifyReply } from 'fastify'
import { answerClientError, answerHalfClosed, MAX_HEADER_BYTES } from '../../platform/http-server.ts'
import { HttpError } from '../../platform/errors.ts'
import { normaliseContentType } from '../../platform/http-body/normalise-content-type.ts'
import { type Logger } from '../../platform/logger.ts'
import { type Metrics } from '../../platform/metrics.ts'
import { CAPTURE_PATHS, captureRoutes, methodNotAllowed, type CaptureRoutesOptions } from './capture-routes.ts'
import { createAnswerError } from './answer-error.ts'
import { forwardToApi } from './forward-to-api.ts'
import { healthRoutes, type HealthRoutesOptions } from './health-routes.ts'

export interface IngestAppOptions extends Omit<CaptureRoutesOptions, 'answerError'>, HealthRoutesOptions {
  metrics: Metrics
  logger: Logger
  /** Where everything that is not capture goes. */
  apiUrl: string
  /** Proxies whose forwarded headers are believed: addresses and ranges, comma separated; empty: none. */
  trustedProxies: string
  maxConnections: number
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
      const known = new HttpError(statusCode, 'invalid_request', 'invalid_request', 'The request could not be read.')
      answerError(known, request, reply as FastifyReply)
    },
    // Anybody can send the headers of proxies.
    trustProxy: options.trustedProxies === '' ? false : options.trustedProxies,
    // A request that comes while the process ends is answered as ever, and its client told to connect again.
    return503OnClosing: false,
    genReqId: () => `${options.processId}-${(requests++).toString(36)}`,
    routerOptions: { ignoreDuplicateSlashes: true, maxParamLength: 500 }
  })
  // Node looks at the shorter of the two only when it is this one.
  app.server.headersTimeout = REQUEST_TIMEOUT_MS
  answerHalfClosed(app.server)
  // One more is closed at once.
  app.server.maxConnections = options.maxConnections
  app.setErrorHandler(answerError)
  app.addHook('onRequest', (request, reply, done) => {
    // Not before: the next connection would come here again.
    if (!app.server.listening) reply.header('connection', 'close')
    normaliseContentType(request.raw.headers)
    done()
  })
  // What no route and no API takes: methods that hardly anybody knows.
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]?.replace(/\/+/g, '/').replace(/\/$/, '')
    if (CAPTURE_PATHS.some((known) => known === path)) throw methodNotAllowed(request, reply)
    throw new HttpError(404, 'invalid_request', 'not_found', 'Not found.')
  })
  await app.register(healthRoutes, options)
  await app.register(captureRoutes, { ...options, answerError })
  app.get('/metrics', async (_request, reply) => {
    const { registry } = options.metrics
    return await reply.type(registry.contentType).send(await registry.metrics())
  })
  await app.register(forwardToApi, { apiUrl: options.apiUrl })
  return app
}
