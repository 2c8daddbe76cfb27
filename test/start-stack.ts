import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { readAddresses, type StackAddresses } from '../embedded/data-dir/stack-access.ts'
import { connectPostgres, type Sql } from '../platform/postgres/connect-postgres.ts'
import { withoutSettings } from './support/environments.ts'
import { createShared } from './support/process-end.ts'
import { askForStack } from './support/shared-services.ts'
import { createTestClickHouse, createTestPostgres } from './support/test-stores.ts'
import type { TestContext } from './support/test-context.ts'
import { PATIENCE_MS, waitFor } from './support/wait-for.ts'

const MAIN = path.join(import.meta.dirname, '..', 'embedded', 'supervisor', 'main.ts')

/** Its log has one line: that a proxy may end what takes so long. */
const CLIENT = { request_timeout: PATIENCE_MS, log: { level: ClickHouseLogLevel.OFF } }

/** The whole system as `npm start` runs it, on free ports and a data directory of its own. */
export interface Stack {
  /** Base URL of the one origin. */
  url: string
  projectApiKey: string
  personalApiKey: string
  clickhouseUrl: string
  databaseUrl: string
  natsUrl: string
  dataDir: string
  supervisor: ChildProcess
  clickhouse: ReturnType<typeof createClient>
  sql: Sql
  /** Runs a query and returns its rows. */
  select <T>(query: string, params?: Record<string, unknown>): Promise<T[]>
  /** Ends the stack as Ctrl-C does; resolves when no process is left, and removes the data directory. */
  stop (): Promise<void>
}

/**
 * Starts the stack and waits until ingest, pipeline and API are ready.
 *
 * @param options.env  Further settings.
 * @throws when it is not ready in time, with what it printed.
 */
export async function startStack (options: { env?: Record<string, string> } = {}): Promise<Stack> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-stack-'))
  const projectApiKey = 'phc_stack_project_key'
  const personalApiKey = 'phx_stack_personal_key'
  const env = {
    ...withoutSettings(process.env),
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: '0',
    MILLRACE_CLICKHOUSE_PORT: '0',
    MILLRACE_NATS_PORT: '0',
    MILLRACE_POSTGRES_PORT: '0',
    MILLRACE_PROJECT_API_KEY: projectApiKey,
    MILLRACE_PERSONAL_API_KEY: personalApiKey,
    // As under npm: when this process is killed, nobody is left who would stop the stack.
    npm_lifecycle_event: 'start',
    ...options.env
  }
  // The test runner would instrument the supervisor and every process below; see `support/run-uninstrumented.js`.
  const supervisor = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, MAIN], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  supervisor.stdout.on('data', (chunk: Buffer) => { printed = (printed + chunk.toString()).slice(-20_000) })
  supervisor.stderr.on('data', (chunk: Buffer) => { printed = (printed + chunk.toString()).slice(-20_000) })

  const { baseUrl: url, databaseUrl, natsUrl, clickhouseUrl } = await waitUntilReady(dataDir, supervisor, () => printed)
    .catch(async (cause: unknown) => {
      await end(supervisor)
      await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
      throw new Error(`the stack did not become ready; it printed:\n${printed}`, { cause })
    })
  const clickhouse = createClient({ ...CLIENT, url: clickhouseUrl })
  const sql = connectPostgres({ url: databaseUrl, max: 2, connectTimeoutMs: PATIENCE_MS })
  return {
    url,
    projectApiKey,
    personalApiKey,
    clickhouseUrl,
    databaseUrl,
    natsUrl,
    dataDir,
    supervisor,
    clickhouse,
    sql,
    select: createSelect(clickhouse),
    async stop () {
      await clickhouse.close()
      await sql.end({ timeout: 1 })
      await end(supervisor)
      // Parts whose supervisor was killed end a moment later.
      await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
    }
  }
}

/** The stack leaves its addresses when all its parts are ready, and prints a line for each of its steps. */
async function waitUntilReady (
  dataDir: string, supervisor: ChildProcess, output: () => string
): Promise<StackAddresses> {
  let [deadline, seen] = [Date.now() + PATIENCE_MS, '']
  while (Date.now() < deadline) {
    if (output() !== seen) [deadline, seen] = [Date.now() + PATIENCE_MS, output()]
    if (supervisor.exitCode !== null) throw new Error(`the supervisor exited with ${supervisor.exitCode}`)
    const addresses = await readAddresses(dataDir).catch(() => undefined)
    if (addresses !== undefined) return addresses
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`no progress for ${PATIENCE_MS} ms`)
}

/** The supervisor ends its parts before it is gone itself. */
async function end (supervisor: ChildProcess): Promise<void> {
  if (supervisor.exitCode !== null || supervisor.signalCode !== null) return
  const exited = once(supervisor, 'exit')
  supervisor.kill('SIGTERM')
  await exited
}

/**
 * The whole system with databases of its own in the Postgres and ClickHouse of the run, so that it starts neither. For
 * tests that break neither. It is gone after the test.
 *
 * @param env  Further settings.
 */
export async function startStackOnSharedStores (t: TestContext, env: Record<string, string> = {}): Promise<Stack> {
  const { url: databaseUrl } = await createTestPostgres(t)
  const { url: clickhouseUrl } = await createTestClickHouse(t)
  const stack = await startStack({ env: { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, ...env } })
  t.teardown(async () => { await stack.stop() })
  return stack
}

/** Settings of a stack: a ClickHouse of its own, in which SQL runs with the login of an analyst. */
export async function withAnalyst (t: TestContext): Promise<Record<string, string>> {
  const { url } = await createTestClickHouse(t)
  const analyst = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' })
  return { CLICKHOUSE_URL: url, MILLRACE_CLICKHOUSE_ANALYST_URL: analyst.href }
}

/** A running stack as its users see it: not how it is started and ended. */
export type RunningStack = Omit<Stack, 'supervisor' | 'stop'>

/** A project of its own on the stack that the tests of a run share. */
export interface StackProject extends RunningStack {
  project: number
}

/**
 * Makes a project on the stack of the run, for tests that look at one project and break nothing. The SQL of its console
 * is that of an analyst. Ingest knows the key of the project a second later at most.
 */
export async function createStackProject (t: TestContext): Promise<StackProject> {
  const stack = await connectToShared(t)
  const response = await fetch(`${stack.url}/api/projects/`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: `Project ${randomBytes(3).toString('hex')}` })
  })
  const { id: project, api_token: projectApiKey } = await response.json() as { id: number, api_token: string }
  return { ...stack, project, projectApiKey }
}

/** Resolves when ingest knows the key of a project that was just made: SDKs drop events on 401. */
export async function waitUntilKnown ({ url, projectApiKey }: RunningStack): Promise<void> {
  const body = JSON.stringify({ api_key: projectApiKey, batch: [] })
  await waitFor(async () => (await fetch(`${url}/batch/`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).status !== 401)
}

/** The connections of this process. */
const connectToShared = createShared(async () => {
  const stack = await askForStack()
  const clickhouse = createClient({ ...CLIENT, url: stack.clickhouseUrl })
  const sql = connectPostgres({ url: stack.databaseUrl, max: 2, connectTimeoutMs: PATIENCE_MS })
  return {
    value: { ...stack, clickhouse, sql, select: createSelect(clickhouse) },
    close: async () => {
      await clickhouse.close()
      await sql.end({ timeout: 1 })
    }
  }
})

function createSelect (clickhouse: ReturnType<typeof createClient>): Stack['select'] {
  return async <T>(query: string, params: Record<string, unknown> = {}) => {
    const result = await clickhouse.query({ query, query_params: params, format: 'JSONEachRow' })
    return await result.json<T>()
  }
}
