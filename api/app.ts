import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance, type FastifyReply } from 'fastify'
import { answerClientError, answerHalfClosed, MAX_HEADER_BYTES } from '../platform/answer-client-error.ts'
import { pingClickHouse } from '../platform/health/check-service.ts'
import { type ApiDeps } from './api-deps.ts'
import { decideRoutes } from './decide/decide-routes.ts'
import { createPersonReader } from './decide/compute/read-person-for-flags.ts'
import { errorHandler } from './http/errors/error-handler.ts'
import { healthRoutes } from './http/health-routes.ts'
import { answerUnknownRoutes } from './http/errors/not-found.ts'
import { observeRequests } from './http/observe-requests.ts'
import { createRequestValidation } from './http/request/request-validation.ts'
import { setSecurityHeaders } from './http/security-headers.ts'
import { managementRoutes } from './management-routes.ts'
import { describeApi } from './openapi/describe-api.ts'

/** Management bodies are small. `decide` sets its own limit on its routes. */
const BODY_LIMIT_BYTES = 1_048_576

/** A client that sends its request slower than this holds a socket for nothing. */
const REQUEST_TIMEOUT_MS = 30_000

/**
 * Builds the API: it does not listen. Each part is a plugin that gets what it needs as options. A request is for one
 * of them:
 *
 * 1. health and metrics: `http/health-routes.ts`
 * 2. flags, for SDKs with a project key: `decide/`, which evaluates them by `flags/`
 * 3. management, for people with a personal key: `management-routes.ts`, then the folder of the resource
 *
 * What all of them share is in `http/`: `access/`, reading the `request/`, `pages/` of lists, and `errors/`, in which
 * whatever goes wrong becomes an answer. What the routes say of themselves is served by `openapi/`.
 */
export async function buildApiApp (deps: ApiDeps): Promise<FastifyInstance> {
  const app = fastify({
    loggerInstance: deps.logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT_BYTES,
    http: { maxHeaderSize: MAX_HEADER_BYTES },
    clientErrorHandler: answerClientError,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: 72_000,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 400 },
    // A factory and not `setValidatorCompiler`, which a scope that adds schemas of its own falls back from.
    // Its published type describes the schema as the argument; what comes is the route's part with the schema.
    schemaController: { compilersFactory: { buildValidator: createRequestValidation as never } },
    // What goes wrong before a route is found, such as a path that does not decode.
    frameworkErrors: (error, request, reply) => { void errorHandler(error, request, reply as FastifyReply) },
    genReqId: () => crypto.randomUUID()
  })
  // Node looks at the shorter of the two only when it is this one (its default is a minute).
  app.server.headersTimeout = REQUEST_TIMEOUT_MS
  answerHalfClosed(app.server)
  app.setErrorHandler(errorHandler)
  setSecurityHeaders(app)
  answerUnknownRoutes(app)
  observeRequests(app, deps.metrics)
  await describeApi(app)

  await app.register(healthRoutes, {
    registry: deps.metrics.registry,
    isShuttingDown: deps.isShuttingDown,
    parts: () => [{ name: 'flag definitions', healthy: deps.definitions.isReady(), ageMs: deps.definitions.ageMs() }],
    // Flags are served from memory while Postgres is unavailable, and definitions while ClickHouse is: taking such a
    // process out of service would take away what it can do. Before the first load it can do nothing.
    isReady: deps.definitions.isReady,
    checks: {
      postgres: async () => await deps.sql`SELECT 1`,
      clickhouse: async () => await pingClickHouse(deps.clickhouse)
    }
  })
  await app.register(decideRoutes, { ...deps, persons: createPersonReader(deps.sql) })
  await app.register(managementRoutes, deps)
  return app
}
