import type { AddressInfo } from 'node:net'
import fastify, { type FastifyInstance } from 'fastify'
import { openKeys } from '../../platform/directory/open-keys.ts'
import { readProjects } from '../../platform/directory/read-keys.ts'
import type { LocateAddress } from '../../engines/enrichment/geoip.ts'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics, type Metrics } from '../../platform/metrics.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { decideRoutes } from '../flags/endpoints/decide-routes.ts'
import { createDefinitionCache } from '../flags/endpoints/definition-cache.ts'
import { createPersonReader, type PersonReader } from '../flags/endpoints/person-reader.ts'
import { answerUnknownRoutes, errorHandler } from '../http/answer-errors.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createProject } from '../projects/project-routes.ts'
import { createUser } from '../projects/users.ts'

/** Longer than any test: what changes is seen because it is announced. */
export const NEVER_MS = 3_600_000

export interface TestDecide {
  /** A direct connection to Postgres, even when a proxy is between it and the endpoints. */
  sql: Sql
  databaseUrl: string
  app: FastifyInstance
  /** Where it listens. */
  url: string
  projectId: number
  projectKey: string
  personalKey: string
  /** Waits until the endpoints know all keys and flags that are stored now. */
  refresh: () => Promise<void>
  metrics: Metrics
  /** Calls to the store of persons so far, by kind. */
  reads: { facts: number, hashKeys: number }
  /** The same endpoints with a new project: the tests of a file share one database, and see nothing of each other. */
  inNewProject: () => Promise<TestDecide>
}

/**
 * Starts the public side of flags on a free port, over a Postgres database of its own with one project and its keys.
 *
 * @param options.via  Turns the address of Postgres into the one the endpoints use, to put a proxy in between.
 */
export async function createTestDecide (
  t: TestContext, options: { via?: (url: string) => Promise<string>, locate?: LocateAddress } = {}
): Promise<TestDecide> {
  const { url: directUrl, sql: direct } = await createTestPostgres(t)
  const project = await createProject(direct, { name: 'Shop' })
  await createUser(direct, { email: 'ann@example.com', firstName: 'Ann' })
  const { key: personalKey } = await createPersonalKey(direct, {
    email: 'ann@example.com', label: 'test', scopes: ['*'], projectIds: null, expiresAt: null
  })

  const databaseUrl = await options.via?.(directUrl) ?? directUrl
  const sql = connectPostgres({ url: databaseUrl, max: 4 })
  const logger = createLogger({ component: 'api', level: 'silent' })
  const metrics = createMetrics('api')
  const now = Date.now
  const definitions = createDefinitionCache({ sql, databaseUrl, pollMs: NEVER_MS, logger, metrics })
  const { keys, close: closeKeys } = openKeys({
    sql, databaseUrl, withOwners: true, readProjects, maxWaitMs: 1000, refreshMs: NEVER_MS, now, logger, metrics
  })
  const app = fastify({ routerOptions: { ignoreTrailingSlash: true, maxParamLength: 400 } })
  app.setErrorHandler(errorHandler)
  answerUnknownRoutes(app)
  const reads = { facts: 0, hashKeys: 0 }
  await app.register(decideRoutes, {
    definitions, keys, metrics, now, persons: countReads(createPersonReader(sql), reads),
    ...options.locate === undefined ? {} : { locate: options.locate }
  })
  t.teardown(async () => {
    await app.close()
    await definitions.stop()
    await closeKeys()
    await sql.end({ timeout: 1 })
  })
  await Promise.all([definitions.ready, keys.ready])
  await app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  const refresh = async (): Promise<void> => { await Promise.all([definitions.refresh(), keys.refresh()]) }
  const showIn = ({ id, apiKey }: { id: number, apiKey: string }): TestDecide => ({
    sql: direct, databaseUrl: directUrl, app, url, personalKey, refresh, metrics, reads,
    projectId: id,
    projectKey: apiKey,
    async inNewProject () {
      const created = await createProject(direct, { name: 'Shop' })
      await refresh()
      return showIn(created)
    }
  })
  return showIn(project)
}

function countReads (reader: PersonReader, reads: TestDecide['reads']): PersonReader {
  return {
    readForFlags (query) {
      reads.facts++
      return reader.readForFlags(query)
    },
    keepHashKeys (record) {
      reads.hashKeys++
      return reader.keepHashKeys(record)
    }
  }
}

/** Makes a person with distinct ids, as the pipeline would. */
export async function addPerson (
  { sql, projectId }: TestDecide, distinctIds: readonly string[], properties: Record<string, unknown> = {}
): Promise<number> {
  const [person] = await sql<Array<{ id: number }>>`
    INSERT INTO persons (project_id, uuid, properties)
    VALUES (${projectId}, gen_random_uuid(), ${sql.json(properties as never)}) RETURNING id`
  for (const id of distinctIds) {
    await sql`INSERT INTO person_distinct_ids ${sql({ project_id: projectId, distinct_id: id, person_id: person!.id })}`
  }
  return person!.id
}

/** A row of `feature_flags` for a test. */
export interface TestFlag {
  key: string
  filters?: unknown
  active?: boolean
  deleted?: boolean
  ensure_experience_continuity?: boolean
  evaluation_runtime?: string
  bucketing_identifier?: string
}

/** Writes flags straight into the table, malformed ones too, and waits until the endpoints know them. */
export async function addFlags (decide: TestDecide, flags: readonly TestFlag[]): Promise<void> {
  for (const { filters = { groups: [{}] }, ...flag } of flags) {
    const row = { ...flag, project_id: decide.projectId, filters: decide.sql.json(filters as never) }
    await decide.sql`INSERT INTO feature_flags ${decide.sql(row)}`
  }
  await decide.refresh()
}

export interface TestAnswer {
  status: number
  headers: Headers
  body: any
}

/** Sends a request over HTTP; a body that is not a Buffer or string is sent as JSON. */
export async function ask (
  decide: TestDecide, path: string, body?: unknown, headers: Record<string, string> = {}
): Promise<TestAnswer> {
  const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
  const response = await fetch(decide.url + path, body === undefined
    ? { headers }
    : {
        method: 'POST',
        headers: isRaw ? headers : { 'content-type': 'application/json', ...headers },
        body: isRaw ? body as string : JSON.stringify({ api_key: decide.projectKey, ...body as object })
      })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
}
