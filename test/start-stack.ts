import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createClient } from '@clickhouse/client'
import { readAddresses, type StackAddresses } from '../deploy/local/data-dir/stack-addresses.ts'
import { connectPostgres, type Sql } from '../platform/postgres/connect-postgres.ts'

const MAIN = path.join(import.meta.dirname, '..', 'deploy', 'local', 'main.ts')
const READY_TIMEOUT_MS = 60_000

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
 * @throws when it is not ready within a minute, with what it printed.
 */
export async function startStack (options: { env?: Record<string, string> } = {}): Promise<Stack> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-stack-'))
  const [port, clickhousePort, natsPort, postgresPort] = await freePorts(4)
  const projectApiKey = 'phc_stack_project_key'
  const personalApiKey = 'phx_stack_personal_key'
  const env = {
    ...withoutSettings(process.env),
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: String(port),
    MILLRACE_CLICKHOUSE_PORT: String(clickhousePort),
    MILLRACE_NATS_PORT: String(natsPort),
    MILLRACE_POSTGRES_PORT: String(postgresPort),
    MILLRACE_PROJECT_API_KEY: projectApiKey,
    MILLRACE_PERSONAL_API_KEY: personalApiKey,
    ...options.env
  }
  // The test runner would instrument the supervisor and every process below; see `support/run-uninstrumented.js`.
  const supervisor = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, MAIN], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  supervisor.stdout.on('data', (chunk: Buffer) => { printed = (printed + chunk.toString()).slice(-20_000) })
  supervisor.stderr.on('data', (chunk: Buffer) => { printed = (printed + chunk.toString()).slice(-20_000) })

  const { baseUrl: url, databaseUrl, natsUrl, clickhouseUrl } = await waitUntilReady(dataDir, supervisor)
    .catch((cause: unknown) => {
      supervisor.kill('SIGKILL')
      throw new Error(`the stack did not become ready; it printed:\n${printed}`, { cause })
    })
  const clickhouse = createClient({ url: clickhouseUrl })
  const sql = connectPostgres({ url: databaseUrl, max: 2 })
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
    async select<T> (query: string, params: Record<string, unknown> = {}) {
      const result = await clickhouse.query({ query, query_params: params, format: 'JSONEachRow' })
      return await result.json<T>()
    },
    async stop () {
      await clickhouse.close()
      await sql.end({ timeout: 1 })
      if (supervisor.exitCode === null && supervisor.signalCode === null) {
        const exited = once(supervisor, 'exit')
        supervisor.kill('SIGTERM')
        await exited
      }
      await rm(dataDir, { recursive: true, force: true })
    }
  }
}

/** The stack leaves its addresses when all its parts are ready. */
async function waitUntilReady (dataDir: string, supervisor: ChildProcess): Promise<StackAddresses> {
  const deadline = Date.now() + READY_TIMEOUT_MS
  while (Date.now() < deadline) {
    if (supervisor.exitCode !== null) throw new Error(`the supervisor exited with ${supervisor.exitCode}`)
    const addresses = await readAddresses(dataDir).catch(() => undefined)
    if (addresses !== undefined) return addresses
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`not ready after ${READY_TIMEOUT_MS} ms`)
}

function withoutSettings (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const ours = /^(MILLRACE_|CLICKHOUSE_URL$|NATS_URL$|DATABASE_URL$)/
  return Object.fromEntries(Object.entries(env).filter(([name]) => !ours.test(name)))
}

/** Ports that were free a moment ago, all different because they are held open together. */
async function freePorts (count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer())
  const ports = await Promise.all(servers.map(async (server) => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }))
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}
