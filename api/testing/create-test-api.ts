import type { FastifyInstance, InjectOptions } from 'fastify'
import { connectClickHouse, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import { openKeys } from '../../platform/directory/open-keys.ts'
import { readProjects } from '../../platform/directory/read-keys.ts'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createTestPostgres, type TestPostgres } from '../../test/support/test-stores.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { type ApiDeps, buildApiApp } from '../app.ts'
import { createImportRunner } from '../events/start-import.ts'
import { createNatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { NEVER_MS } from './create-test-decide.ts'
import { createDefinitionCache } from '../flags/endpoints/definition-cache.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createProject } from '../projects/project-routes.ts'
import { createUser, type UserSummary } from '../projects/users.ts'

/** The API on a database of its own, with one project, one user and a key that may do everything. */
export interface TestApi {
  app: FastifyInstance
  sql: Sql
  databaseUrl: string
  projectId: number
  projectKey: string
  user: UserSummary
  /** The personal key. */
  key: string
  /** The keys the API knows. Refresh it after creating a key: the notification takes a moment. */
  keys: KeyDirectory
  /** Sends a request with the personal key; a path that begins with `~` is below the project. */
  call: (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown) => Promise<TestAnswer>
  /** The same API with a new project: the tests of a file share one database, and see nothing of each other. */
  inNewProject: () => Promise<TestApi>
}

export interface TestAnswer {
  status: number
  headers: Record<string, string | number | string[] | undefined>
  // The assertions of each test check the shape.
  body: any
}

/** Addresses on which nobody listens: ClickHouse and NATS are unavailable. */
const NOWHERE = 'http://127.0.0.1:9/none'

/**
 * Builds the API for one test; requests are injected.
 *
 * @param overrides  Parts of the dependencies, such as a ClickHouse or NATS (default: unavailable) or a clock.
 * @param database  Shared with another part of the system; default: one of its own.
 */
export async function createTestApi (
  t: TestContext, overrides: Partial<ApiDeps> = {}, database?: TestPostgres
): Promise<TestApi> {
  const { sql, url: databaseUrl } = database ?? await createTestPostgres(t)
  const project = await createProject(sql, { name: 'Test' })
  const user = await createUser(sql, { email: 'ann@example.com', firstName: 'Ann' })
  const { key } = await createPersonalKey(sql, {
    email: user.email, label: 'test', scopes: ['*'], projectIds: null, expiresAt: null
  })

  const now = overrides.now ?? Date.now
  const logger = createLogger({ component: 'api', level: 'silent' })
  const clickhouse: ClickHouse = overrides.clickhouse ?? connectClickHouse({ url: NOWHERE })
  const nats = overrides.nats ?? createNatsOnDemand({ url: 'nats://127.0.0.1:9', logger })
  const metrics = createMetrics('api')
  const { keys, close: closeKeys } = openKeys({
    sql, databaseUrl, withOwners: true, readProjects, maxWaitMs: 10_000, refreshMs: NEVER_MS, now, logger, metrics
  })
  const definitions = createDefinitionCache({ sql, databaseUrl, pollMs: NEVER_MS, logger, metrics })
  const app = await buildApiApp({
    logger, sql, clickhouse, nats, keys, now, metrics, definitions,
    publicUrl: '', analystUrl: '', managementRateLimit: 0, status: async () => { throw new Error('this test has no status') },
    imports: createImportRunner({ folder: '', url: NOWHERE, sql, logger, now }), isShuttingDown: () => false, ...overrides
  })
  await Promise.all([definitions.ready, keys.ready])
  t.teardown(async () => {
    await app.close()
    await closeKeys()
    await definitions.stop()
    await nats.close()
    if (overrides.clickhouse === undefined) await clickhouse.close()
  })
  const showIn = ({ id, apiKey }: { id: number, apiKey: string }): TestApi => ({
    app, sql, databaseUrl, projectId: id, projectKey: apiKey, user, key, keys,
    call: async (method, path, body) => await send(app, {
      method,
      url: path.replace(/^~/, `/api/projects/${id}`),
      headers: { authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { payload: body as NonNullable<InjectOptions['payload']> })
    }),
    async inNewProject () {
      const created = await createProject(sql, { name: 'Test' })
      // The notification may come after the first request.
      await keys.refresh()
      return showIn(created)
    }
  })
  return showIn(project)
}

/** Injects one request and reads the answer; that of lines of JSON, or of a zip, as text. */
export async function send (app: FastifyInstance, request: InjectOptions): Promise<TestAnswer> {
  const response = await app.inject(request)
  const isText = /^application\/(x-ndjson|zip)/.test(String(response.headers['content-type']))
  const body: unknown = response.body === '' ? undefined : isText ? response.body : JSON.parse(response.body)
  return { status: response.statusCode, headers: response.headers, body }
}
