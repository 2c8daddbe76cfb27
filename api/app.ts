import fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, LogController } from 'fastify'
import { consoleRoutes } from '../console/server/console-routes.ts'
import type { ClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { allowUnserved } from '../platform/cross-origin.ts'
import { FORWARDED } from '../schema/wire/forwarded-request.ts'
import { checkServices, type HealthOptions, type HealthPart, healthRoutes, pingClickHouse } from '../platform/health-and-readiness.ts'
import { answerClientError, answerHalfClosed, closeUnusedConnections, discardRest, discardRests, endWithClient, MAX_HEADER_BYTES } from '../platform/http-server.ts'
import type { LocateAddress } from '../engines/enrichment/geoip.ts'
import type { KeyDirectory } from '../platform/directory/key-directory.ts'
import type { Logger } from '../platform/logger.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Sql } from '../platform/postgres/connect-postgres.ts'
import type { Status } from './status/status-schema.ts'
import { notificationRoutes } from './notifications/alert-routes.ts'
import { boardRoutes, sharedBoardRoutes } from './boards/board-routes.ts'
import { createTileAnswers } from './boards/tile-answers.ts'
import { accountRoutes } from './projects/account-routes.ts'
import { deadLetterRoutes } from './events/dead-letters/dead-letter-routes.ts'
import type { NatsOnDemand } from './events/dead-letters/nats-on-demand.ts'
import { eventDefinitionRoutes } from './definitions/event-definition-routes.ts'
import { eventRuleRoutes } from './rules-and-schemas/rules/event-rule-routes.ts'
import { digestRoutes } from './events/digest-routes.ts'
import { eventListRoutes } from './events/event-list.ts'
import { liveRoutes } from './events/live/live-routes.ts'
import { eventRoutes } from './events/event-routes.ts'
import { eventSchemaRoutes } from './rules-and-schemas/schemas/event-schema-routes.ts'
import { exportRoutes } from './exports/export-routes.ts'
import { experimentRoutes } from './experiments/experiment-routes.ts'
import { resultsRoutes } from './experiments/results/results-routes.ts'
import { decideRoutes } from './flags/endpoints/decide-routes.ts'
import type { DefinitionCache } from './flags/endpoints/definition-cache.ts'
import { createPersonReader } from './flags/endpoints/person-reader.ts'
import { cohortRoutes } from './flags/management/cohort-routes.ts'
import { featureFlagRoutes } from './flags/management/feature-flag-routes.ts'
import { testFlagRoutes } from './flags/management/test-flag-routes.ts'
import { answerUnknownRoutes, errorHandler, notFound } from './http/answer-errors.ts'
import { describeApi } from './http/openapi.ts'
import { authenticatePersonalKey, type AuthenticateOptions, limitRate } from './http/personal-key-access.ts'
import { createRequestValidation, readJsonBodies, refuseUnstorableValues, serializeWhenUsed } from './http/request-validation.ts'
import { importRoutes } from './events/import-routes.ts'
import type { ImportRunner } from './events/start-import.ts'
import { ingestionWarningRoutes } from './events/ingestion-warning-routes.ts'
import { personalKeyRoutes } from './projects/personal-key-routes.ts'
import type { ExternalLogin } from './people/external-login.ts'
import { loginRoutes } from './people/login-routes.ts'
import { maskAnswer, refuseMaskedQuery } from './people/mask-mails.ts'
import { peopleRoutes } from './people/people-routes.ts'
import { recordRequests } from './people/record.ts'
import { recordRoutes } from './people/record-routes.ts'
import { findSessionKey, sessionRoutes } from './people/session-routes.ts'
import { quotaRoutes } from './projects/quota-routes.ts'
import { retentionRoutes } from './projects/retention-routes.ts'
import { ledgerRoutes } from './events/ledger-routes.ts'
import { groupRoutes } from './persons/group-routes.ts'
import { seenPersonRoutes } from './persons/seen-persons.ts'
import { personHistoryRoutes } from './persons/person-history-routes.ts'
import { personRoutes } from './persons/person-routes.ts'
import { erasureRoutes } from './persons/erasure-routes.ts'
import { propertyDefinitionRoutes } from './definitions/property-definition-routes.ts'
import { receiptRoutes } from './events/receipts/receipt-routes.ts'
import { questionRoutes } from './questions/question-routes.ts'
import { RunningQueries } from './queries/answer-query.ts'
import { sqlRoutes } from './queries/sql-routes.ts'
import { statusRoutes } from './status/status-routes.ts'
import { savedQueryRoutes } from './queries/saved-query-routes.ts'

export interface ApiDeps {
  logger: Logger
  sql: Sql
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster, for statements that change tables; absent or empty for a single node. */
  cluster?: string
  /** ClickHouse URL with the analyst login, for SQL; empty without one. */
  analystUrl: string
  /** Tells the place of an address, for flags; absent: places are unknown. */
  locate?: LocateAddress
  parts?: () => HealthPart[]
  nats: NatsOnDemand
  /** Folder of scheduled backups, beside which erasures are recorded; empty without one. */
  backupFolder?: string
  /** Keys and projects, in memory, with the owners of personal keys. */
  keys: KeyDirectory
  metrics: Metrics
  definitions: DefinitionCache
  status: () => Promise<Status>
  imports: ImportRunner
  login?: ExternalLogin
  /** Base of absolute links; when empty, the address of the request. */
  publicUrl: string
  /** Maximum management requests per minute and personal key; 0 for no limit. */
  managementRateLimit: number
  /** Longest wait of the deletion of a person for the pipeline, in milliseconds. Default 20 s. */
  deletionWaitMs?: number
  /** Epoch milliseconds. */
  now: () => number
  isShuttingDown: () => boolean
}

/** Maximum bytes of a management body. The flag endpoints have a limit of their own. */
const BODY_LIMIT_BYTES = 1_048_576

const PASSWORDS_ONLY: ExternalLogin = { provider: null, trustsProxy: false, readRoles: () => [] }

/** Maximum time to receive a request, in milliseconds: a slower client only occupies a socket. */
const REQUEST_TIMEOUT_MS = 30_000

/**
 * Builds the API, without listening. Each part is a plugin that gets its dependencies as options. A request goes to one
 * of them:
 *
 * 1. health and metrics: `platform/health-and-readiness.ts`
 * 2. flags, for SDKs with a project key: `flags/endpoints/`, which evaluates them with `engines/flags/`
 * 3. management, with a personal key or a session of the console: `managementRoutes` below, then the routes of the
 *    resource
 * 4. a shared board, with the key of its link: `boards/board-routes.ts`
 * 5. the console: `console/server/`, its page and its files; `people/session-routes.ts`, who is logged in
 *
 * What management shares is in `http/`, in the order of a request: `personal-key-access.ts` (key, rate limit),
 * `request-validation.ts` (reading and checking it), `list-queries.ts` and `pagination.ts` (lists), `answer-errors.ts`
 * (every error becomes an answer). `openapi.ts` serves the OpenAPI document of all routes.
 */
export async function buildApiApp (deps: ApiDeps): Promise<FastifyInstance> {
  const validation = createRequestValidation()
  const app = fastify({
    loggerInstance: deps.logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    // A child for each request costs more than the few lines that name theirs (`http/answer-errors.ts`).
    childLoggerFactory: (logger) => logger,
    bodyLimit: BODY_LIMIT_BYTES,
    http: { maxHeaderSize: MAX_HEADER_BYTES },
    clientErrorHandler: answerClientError,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: 72_000,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 400 },
    // A factory and not `setValidatorCompiler`, which has no effect in a scope that adds schemas of its own.
    // By its type the argument is a schema; in fact it is a part of the route that has the schema.
    schemaController: {
      compilersFactory: { buildValidator: (() => validation) as never, buildSerializer: serializeWhenUsed }
    },
    // Errors before a route is found, such as a path that cannot be decoded.
    frameworkErrors: (error, request, reply) => {
      discardRest(request.raw)
      if (!allowUnserved(request, reply as FastifyReply)) void errorHandler(error, request, reply as FastifyReply)
    },
    genReqId: () => crypto.randomUUID()
  })
  // Node enforces the shorter of the two timeouts only when it is this one, which is a minute by default.
  app.server.headersTimeout = REQUEST_TIMEOUT_MS
  answerHalfClosed(app.server)
  closeUnusedConnections(app.server)
  app.setErrorHandler(errorHandler)
  setSecurityHeaders(app)
  answerUnknownRoutes(app)
  observeRequests(app, deps.metrics)
  app.addHook('onRequest', (request, reply, done) => {
    if (request.routeOptions.config.isEndless === true) endWithClient(reply.raw)
    done()
  })
  discardRests(app)
  await describeApi(app)

  await app.register(async (scope) => {
    // However the path is spelled: the proxy before ingest hides the paths of ingest, and knows no others.
    scope.addHook('onRequest', (request, _reply, done) => done(FORWARDED in request.headers ? notFound() : undefined))
    await scope.register(healthRoutes, describeHealth(deps))
  })
  await app.register(decideRoutes, { ...deps, persons: createPersonReader(deps.sql) })
  const login = { ...deps, ...deps.login ?? PASSWORDS_ONLY }
  // SQL, questions and boards share the places that analysts have.
  const queries = new RunningQueries()
  const answerTile = createTileAnswers({ ...deps, queries })
  await app.register(loginRoutes, login)
  await app.register(sessionRoutes, login)
  await app.register(managementRoutes, {
    ...deps, queries, answerTile,
    findSessionKey: async (request) => await findSessionKey(request, login)
  })
  await app.register(sharedBoardRoutes, { prefix: '/api/shared_board', ...deps, answerTile })
  await app.register(consoleRoutes)
  return app
}

/**
 * The process stays ready without Postgres and without ClickHouse: it serves flags from memory, and definitions without
 * ClickHouse. Before the first read of keys and flags it is starting.
 */
function describeHealth (deps: ApiDeps): HealthOptions {
  const { sql, clickhouse, keys, definitions, metrics, isShuttingDown, parts = () => [] } = deps
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
      { name: 'flag definitions', healthy: definitions.isReady(), ageMs: definitions.ageMs() },
      ...parts()
    ]
  }
}

/** The management API: every route requires a personal key, is rate limited per key, and is in `/api/schema`. */
async function managementRoutes (
  app: FastifyInstance,
  deps: ApiDeps & Pick<AuthenticateOptions, 'findSessionKey'> & { queries: RunningQueries, answerTile: ReturnType<typeof createTileAnswers> }
): Promise<void> {
  readJsonBodies(app)
  await app.register(authenticatePersonalKey, deps)
  app.addHook('preValidation', refuseUnstorableValues)
  await app.register(limitRate, { maxPerMinute: deps.managementRateLimit })
  app.addHook('preHandler', refuseMaskedQuery)
  app.addHook('preSerialization', maskAnswer)
  await app.register(recordRequests, deps)

  await app.register(accountRoutes, { prefix: '/api', ...deps })
  await app.register(personalKeyRoutes, { prefix: '/api', ...deps })
  await app.register(peopleRoutes, { prefix: '/api', ...deps })
  await app.register(recordRoutes, { prefix: '/api', ...deps })
  await app.register(deadLetterRoutes, { prefix: '/api/dead_letters', ...deps, ofAllProjects: true })
  await app.register(retentionRoutes, { prefix: '/api/retention', ...deps })
  await app.register(sqlRoutes, { prefix: '/api/sql', ...deps })
  await app.register(statusRoutes, { prefix: '/api', ...deps })
  await app.register(async (project) => {
    await project.register(boardRoutes, { prefix: '/boards', ...deps })
    await project.register(cohortRoutes, { prefix: '/cohorts', ...deps })
    await project.register(deadLetterRoutes, { prefix: '/dead_letters', ...deps })
    await project.register(digestRoutes, deps)
    await project.register(eventListRoutes, deps)
    await project.register(eventRoutes, deps)
    await project.register(eventDefinitionRoutes, { prefix: '/event_definitions', ...deps })
    await project.register(eventSchemaRoutes, { prefix: '/event_schemas', ...deps })
    await project.register(experimentRoutes, { prefix: '/experiments', ...deps })
    await project.register(resultsRoutes, { prefix: '/experiments', ...deps })
    await project.register(exportRoutes, { prefix: '/exports', ...deps })
    await project.register(featureFlagRoutes, { prefix: '/feature_flags', ...deps })
    await project.register(testFlagRoutes, { prefix: '/feature_flags', ...deps })
    await project.register(groupRoutes, { prefix: '/groups', ...deps })
    await project.register(importRoutes, { prefix: '/imports', ...deps })
    await project.register(ledgerRoutes, { prefix: '/ledger', ...deps })
    await project.register(ingestionWarningRoutes, { prefix: '/ingestion_warnings', ...deps })
    await project.register(liveRoutes, deps)
    await project.register(personHistoryRoutes, { prefix: '/persons', ...deps })
    await project.register(seenPersonRoutes, { prefix: '/persons', ...deps })
    await project.register(personRoutes, { prefix: '/persons', ...deps })
    await project.register(erasureRoutes, { prefix: '/erasures', ...deps })
    await project.register(questionRoutes, { prefix: '/questions', ...deps })
    await project.register(quotaRoutes, { ...deps })
    await project.register(receiptRoutes, { ...deps })
    await project.register(savedQueryRoutes, deps)
    await project.register(notificationRoutes, deps)
    await project.register(eventRuleRoutes, { prefix: '/rules', ...deps })
    await project.register(propertyDefinitionRoutes, { prefix: '/property_definitions', ...deps })
  }, { prefix: '/api/projects/:project_id' })
}

/**
 * Sets the security headers of every answer: no guessing of its type, no frames, no referrer, and no scripts except on
 * the documentation page, which needs its own.
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

/** In seconds. SDKs give up on flags after 3 s; lists should take tens of milliseconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3, 10]
const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** Measures every request by route, method and status. Not by path, because each id would be a series. */
function observeRequests (app: FastifyInstance, metrics: Metrics): void {
  const duration = metrics.histogram('request_duration_seconds', 'Duration of requests, from head to end of the answer.', BUCKETS, ['method', 'route', 'status'])
  // Series of the histogram begin with the first response of a route: an alert on it would miss the first errors.
  const responses = metrics.counter('responses_total', 'Responses by status class, without health and metrics.', { status: STATUS_CLASSES })
  app.addHook('onResponse', (request, reply, done) => {
    // What a client reads for as long as it likes says nothing about how fast answers are.
    if (request.routeOptions.config.isEndless === true) return done()
    const route = request.routeOptions.url ?? 'unknown'
    duration.observe({ method: request.method, route, status: reply.statusCode }, reply.elapsedTime / 1000)
    // A probe that reports a degraded process is not a failed request.
    if (!route.startsWith('/_')) responses.inc({ status: `${Math.floor(reply.statusCode / 100)}xx` })
    done()
  })
}
