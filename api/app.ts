import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance, type FastifyReply } from 'fastify'
import { type ClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { checkServices, healthRoutes, pingClickHouse, type HealthOptions } from '../platform/health.ts'
import { answerClientError, answerHalfClosed, MAX_HEADER_BYTES } from '../platform/http-server.ts'
import { type KeyDirectory } from '../platform/keys/key-directory.ts'
import { type Logger } from '../platform/logger.ts'
import { type Metrics } from '../platform/metrics.ts'
import { type Sql } from '../platform/postgres/connect-postgres.ts'
import { deadLetterRoutes } from './dead-letters/dead-letter-routes.ts'
import { type NatsOnDemand } from './dead-letters/nats-on-demand.ts'
import { eventDefinitionRoutes } from './event-definitions/event-definition-routes.ts'
import { experimentRoutes } from './experiments/experiment-routes.ts'
import { resultsRoutes } from './experiments/results/results-routes.ts'
import { decideRoutes } from './flag-endpoints/decide-routes.ts'
import { type DefinitionCache } from './flag-endpoints/definition-cache.ts'
import { createPersonReader } from './flag-endpoints/person-reader.ts'
import { featureFlagRoutes } from './flag-management/feature-flag-routes.ts'
import { answerUnknownRoutes, errorHandler } from './http/errors.ts'
import { observeRequests } from './http/observe-requests.ts'
import { describeApi } from './http/openapi.ts'
import { authenticatePersonalKey, limitRate } from './http/personal-key-access.ts'
import { createRequestValidation, readJsonBodies, refuseUnstorableText } from './http/request-validation.ts'
import { personRoutes } from './person-routes.ts'
import { propertyDefinitionRoutes } from './property-definitions/property-definition-routes.ts'

/** Everything the API works with, made once in `main.ts` (or a test) and handed down. */
export interface ApiDeps {
  logger: Logger
  sql: Sql
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster, for statements that change tables; absent or empty: one node. */
  cluster?: string
  /** For dead letters only. */
  nats: NatsOnDemand
  /** Keys and projects, in memory, with the owners of personal keys. */
  keys: KeyDirectory
  metrics: Metrics
  /** Flags of all projects, in memory. */
  definitions: DefinitionCache
  /** Base of absolute links; empty takes the address of each request. */
  publicUrl: string
  /** Requests per minute and personal key on management; 0 is no limit. */
  managementRateLimit: number
  /** Epoch milliseconds. */
  now: () => number
  isShuttingDown: () => boolean
}

/** Management bodies are small. `decide` sets its own limit on its routes. */
const BODY_LIMIT_BYTES = 1_048_576

/** A client that sends its request slower than this holds a socket for nothing. */
const REQUEST_TIMEOUT_MS = 30_000

/**
 * Builds the API: it does not listen. Each part is a plugin that gets what it needs as options. A request is for one
 * of them:
 *
 * 1. health and metrics: `platform/health.ts`, `http/observe-requests.ts`
 * 2. flags, for SDKs with a project key: `flag-endpoints/`, which evaluates them with `flag-evaluation/`
 * 3. management, for people with a personal key: `managementRoutes` below, then the routes of the resource
 *
 * What management shares is in `http/`, in the order of a request: `personal-key-access.ts` (who asks, how often),
 * `request-validation.ts` (reading and checking it), `list-queries.ts` and `pagination.ts` (lists), `errors.ts`
 * (whatever goes wrong becomes an answer). `openapi.ts` serves what the routes say of themselves.
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

  await app.register(healthRoutes, describeHealth(deps))
  await app.register(decideRoutes, { ...deps, persons: createPersonReader(deps.sql) })
  await app.register(managementRoutes, deps)
  return app
}

/**
 * Flags are served from memory while Postgres is unavailable, and definitions while ClickHouse is: taking such a
 * process out of service would take away what it can do. Before the first load of keys and flags it can do
 * nothing.
 */
function describeHealth ({ sql, clickhouse, keys, definitions, metrics, isShuttingDown }: ApiDeps): HealthOptions {
  const checks = {
    postgres: async () => await sql`SELECT 1`,
    clickhouse: async () => await pingClickHouse(clickhouse)
  }
  return {
    registry: metrics.registry,
    checks,
    phase: () => isShuttingDown() ? 'shutting down' : keys.state.isReady && definitions.isReady() ? 'running' : 'starting',
    parts: async () => [
      ...await checkServices(checks),
      { name: 'flag definitions', healthy: definitions.isReady(), ageMs: definitions.ageMs() }
    ]
  }
}

/** The private side: every route asks for a personal key, is rate limited by it, and is part of `/api/schema`. */
async function managementRoutes (app: FastifyInstance, deps: ApiDeps): Promise<void> {
  readJsonBodies(app)
  await app.register(authenticatePersonalKey, deps)
  app.addHook('preValidation', refuseUnstorableText)
  await app.register(limitRate, { maxPerMinute: deps.managementRateLimit })

  await app.register(async (project) => {
    await project.register(deadLetterRoutes, { prefix: '/dead_letters', ...deps })
    await project.register(eventDefinitionRoutes, { prefix: '/event_definitions', ...deps })
    await project.register(experimentRoutes, { prefix: '/experiments', ...deps })
    await project.register(resultsRoutes, { prefix: '/experiments', ...deps })
    await project.register(featureFlagRoutes, { prefix: '/feature_flags', ...deps })
    await project.register(personRoutes, { prefix: '/persons', ...deps })
    await project.register(propertyDefinitionRoutes, { prefix: '/property_definitions', ...deps })
  }, { prefix: '/api/projects/:project_id' })
}

/**
 * What browsers are told about every answer of the API: take the type as it is said, show it in no frame, tell no
 * other site where it was, and (for everything but the page of documentation, which brings scripts of its own and says
 * so itself) run nothing in it.
 */
function setSecurityHeaders (app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-content-type-options', 'nosniff')
    reply.header('x-frame-options', 'DENY')
    reply.header('referrer-policy', 'no-referrer')
    if (!request.url.startsWith('/docs')) {
      reply.header('content-security-policy', "default-src 'none'; frame-ancestors 'none'")
    }
    done()
  })
}
