/** The parts of a stack: the services NATS, ClickHouse and Postgres, and the tiers pipeline, API and ingest. */
import path from 'node:path'
import type { Credentials, StackAddresses } from '../data-dir/stack-access.ts'
import type { Progress } from './progress.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { startClickHouse } from './start-clickhouse.ts'
import { startNatsServer } from '../nats/start-nats-server.ts'
import { startPostgres } from '../postgres/start-postgres.ts'
import { askHttp, type Service, waitUntilReady } from './processes/service.ts'
import type { PartHooks, StackParts, StopGroup } from './processes/supervise.ts'
import type { StackSettings } from './stack-settings.ts'
import { pickFreePort, toClientHost } from './ports.ts'
import { findCompileCache } from '../data-dir/cache-dir.ts'
import { type ManagedProcess, spawnProcess } from './processes/spawn-process.ts'

export type ServiceUrls = Pick<StackAddresses, 'natsUrl' | 'clickhouseUrl' | 'databaseUrl'>

export type TierUrls = Pick<StackAddresses, 'baseUrl' | 'apiUrl' | 'pipelineUrl'>

interface StartOptions {
  settings: StackSettings
  credentials: Credentials
  parts: StackParts
}

export type TierName = 'ingest' | 'pipeline' | 'api'

/** A stopping tier is killed after its time: what it had not acknowledged is redelivered. */
export interface TierOptions extends PartHooks {
  name: TierName
  /** Where it answers `GET /_readiness`. */
  port: number
  host: string
  env: NodeJS.ProcessEnv
  dataDir: string
  /** Takes `starting` for ready: a tier that waits for a service gains nothing by being killed and started again. */
  mayBeStarting?: boolean
}

const ROOT = path.resolve(import.meta.dirname, '..', '..')

/** `main.ts`, in the package `main.js`. */
const ENTRY = `main${path.extname(import.meta.filename)}`

const LOCAL = '127.0.0.1'

/** A tier may have to drain a full spool, or wait for the lease of a killed owner, before it is ready. */
const READY_TIMEOUT_MS = 180_000

/** How long a server of `NATS_URL` may take to accept the login before the start goes on, in milliseconds. */
const NATS_LOGIN_WAIT_MS = 3000

/** Starts the three services at once, except those that the operator runs (`NATS_URL` and the like). */
export async function startServices (
  { settings, credentials, parts, progress }: StartOptions & { progress: Progress }
): Promise<ServiceUrls> {
  const { dataDir, ports, external } = settings

  if (external.natsUrl !== undefined) await checkNats(external.natsUrl)
  const [natsUrl, clickhouseUrl, databaseUrl] = await Promise.all([
    external.natsUrl ?? startKept(parts, 'nats-server', ports.nats, async (port, hooks) => await startNatsServer({
      ...hooks,
      dataDir,
      port,
      binary: settings.natsServer,
      onFetch: () => progress.print('  nats-server is not on PATH: fetching it from the Debian mirror of this machine')
    })),
    external.clickhouseUrl ?? startKept(parts, 'clickhouse', ports.clickhouse, async (port, hooks) => await startClickHouse({
      ...hooks,
      dataDir,
      port,
      host: settings.clickhouseHost,
      password: credentials.clickhousePassword,
      analystPassword: credentials.analystPassword,
      memoryBytes: settings.clickhouseMemoryBytes,
      logLevel: settings.logLevel
    })),
    external.databaseUrl ?? startKept(parts, 'postgres', ports.postgres, async (port, hooks) => await startPostgres({
      ...hooks, dataDir, port, password: credentials.postgresPassword, createDatabase: false
    }))
  ])
  return { natsUrl, clickhouseUrl, databaseUrl }
}

/**
 * Tiers wait for a login that is accepted, without end, and refuse an old server in their own logs; the operator who
 * has just typed the URL needs a message.
 *
 * @throws {MillraceError} when a server refuses the login or is too old. One that does not answer is waited for by the
 *   tiers.
 */
async function checkNats (url: string): Promise<void> {
  // Only here: a supervisor that runs for years otherwise needs no client of NATS in its memory.
  const [{ connectNats, NatsLoginRefusedError }, { followServerVersions }, { createLogger }] = await Promise.all([
    import('../../platform/nats/connect-nats.ts'), import('../../platform/nats/server-versions.ts'), import('../../platform/logger.ts')
  ])
  const logger = createLogger({ component: 'start', level: 'silent' })
  const connection = await connectNats({ url, name: 'millrace-start', logger, timeoutMs: NATS_LOGIN_WAIT_MS }).catch((error: unknown) => {
    if (error instanceof NatsLoginRefusedError) throw error
    return null
  })
  try {
    if (connection !== null) await followServerVersions(connection, logger).refuseOld()
  } finally {
    await connection?.close()
  }
}

/**
 * Starts the three tiers. Ingest starts after the API, because it is the origin of both: a client that waits for the
 * origin may call either, and gets no 503 from an API that is still starting.
 */
export async function startTiers (
  { settings, credentials, urls, parts }: StartOptions & { urls: ServiceUrls }
): Promise<TierUrls> {
  const { dataDir, host } = settings
  const ports = {
    ingest: settings.ports.origin || await pickFreePort(),
    api: settings.ports.api || await pickFreePort(),
    pipeline: settings.ports.pipeline || await pickFreePort()
  }
  const apiUrl = toClientUrl(LOCAL, ports.api)
  const env = {
    ...settings.env,
    NATS_URL: urls.natsUrl,
    CLICKHOUSE_URL: urls.clickhouseUrl,
    DATABASE_URL: urls.databaseUrl,
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: String(ports.ingest),
    MILLRACE_API_PORT: String(ports.api),
    MILLRACE_PIPELINE_PORT: String(ports.pipeline),
    MILLRACE_API_URL: apiUrl
  }
  const analystUrl = findAnalystUrl(settings, credentials, urls)
  const own: Partial<Record<TierName, NodeJS.ProcessEnv>> = {
    api: { MILLRACE_CLICKHOUSE_ANALYST_URL: analystUrl },
    pipeline: {
      MILLRACE_CLICKHOUSE_ANALYST_URL: analystUrl,
      MILLRACE_SMTP_URL: settings.smtpUrl,
      MILLRACE_PUBLIC_URL: settings.env['MILLRACE_PUBLIC_URL'] || toClientUrl(host, ports.ingest)
    }
  }
  const start = async (name: TierName, group: StopGroup, listenOn: string): Promise<void> => {
    const ownEnv = { ...env, ...own[name], MILLRACE_HOST: listenOn }
    let mayBeStarting = false
    await parts.start(group, name, async (hooks) => {
      const tier = await startTier({
        ...hooks, name, port: ports[name], host: listenOn, env: ownEnv, dataDir, mayBeStarting
      })
      mayBeStarting = true
      return tier
    })
  }
  await Promise.all([
    start('pipeline', 'pipeline', LOCAL),
    start('api', 'sources', LOCAL).then(async () => await start('ingest', 'sources', host))
  ])
  return { baseUrl: toClientUrl(host, ports.ingest), apiUrl, pipelineUrl: toClientUrl(LOCAL, ports.pipeline) }
}

/** Where the API and alerts run SQL of users; empty for your own server without a configured analyst login. */
function findAnalystUrl (
  { external }: StackSettings, { analystPassword }: Credentials, { clickhouseUrl }: ServiceUrls
): string {
  if (external.analystUrl !== undefined || external.clickhouseUrl !== undefined) return external.analystUrl ?? ''
  const url = new URL(clickhouseUrl)
  url.username = 'analyst'
  url.password = encodeURIComponent(analystPassword)
  return url.href
}

/**
 * Starts one tier as a process of its own, as it runs in a cluster, and waits until it is ready.
 *
 * @throws {ServiceStartError} when it is not ready in time.
 */
export async function startTier (options: TierOptions): Promise<ManagedProcess> {
  const { name, port, host, dataDir } = options
  const child = await spawnProcess({
    name,
    command: process.execPath,
    args: [path.join(ROOT, name, ENTRY)],
    env: { ...options.env, ...await findCompileCache(options.env, dataDir) },
    cwd: ROOT,
    logFile: path.join(dataDir, 'logs', `${name}.log`),
    stopTimeoutMs: options.stopTimeoutMs,
    onSpawn: options.onSpawn
  })
  const url = `${toClientUrl(host, port)}/_readiness`
  const isReady = async (): Promise<boolean> => await answersAs(url, child.pid, options.mayBeStarting ?? false)
  await waitUntilReady(child, { isReady, timeoutMs: READY_TIMEOUT_MS, signal: options.signal })
  return child
}

/** What a tier says is wrong with it: it has started all the same, as with a file of places that cannot be read. */
export async function listErrors (url: string): Promise<string[]> {
  const { parts } = fieldsOf(await askHttp(`${url}/_health`).then(({ body }): unknown => JSON.parse(body), () => ({})))
  return (Array.isArray(parts) ? parts.map(fieldsOf) : [])
    .flatMap(({ name, healthy, lastError }) => healthy === false && typeof lastError === 'string' ? `${String(name)}: ${lastError}` : [])
}

/** A restarted service keeps its first port, which its clients know. */
async function startKept (
  parts: StackParts, name: string, wanted: number, start: (port: number, hooks: PartHooks) => Promise<Service>
): Promise<string> {
  let port = wanted
  const { url } = await parts.start('services', name, async (hooks) => {
    const service = await start(port, hooks)
    port = service.port
    return service
  })
  return url
}

/** Whether this very process answers that it is ready: another one may answer on a port that both share. */
async function answersAs (url: string, pid: number, mayBeStarting: boolean): Promise<boolean> {
  const { status: code, body } = await askHttp(url)
  if (code !== 200 && !mayBeStarting) return false
  const { pid: answering, status } = JSON.parse(body) as { pid?: number, status?: string }
  if (code !== 200 && status !== 'starting') return false
  return answering === undefined || answering === pid
}

/** The URL by which a client on this machine reaches what listens on the host. */
function toClientUrl (host: string, port: number): string {
  return `http://${toClientHost(host)}:${port}`
}
