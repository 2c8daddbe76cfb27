import { type ClickHouse, connectClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { connectNats, type NatsConnection } from '../platform/nats/connect-nats.ts'
import { connectPostgres, type Sql } from '../platform/postgres/connect-postgres.ts'
import { checkService, pingClickHouse } from '../platform/health.ts'
import { createLogger } from '../platform/logger.ts'
import { loadSettings } from '../platform/load-settings.ts'
import { type ServiceName, ServiceSilentError } from './run-cli.ts'
import { readAddresses, type StackAddresses } from '../deploy/local/data-dir/stack-access.ts'

/** What a command may use of the world; tests hand in their own. */
export interface CliWorld {
  env: NodeJS.ProcessEnv
  stdout: { write: (text: string) => unknown }
  stderr: { write: (text: string) => unknown }
  /** Epoch milliseconds. */
  now: () => number
}

/** How a command uses a service. */
export interface ServiceUse {
  /** Default true: the command fails when the service is silent for longer than `--timeout`. */
  isWatched?: boolean
}

/** A `CliWorld` with the connections of one run: opened when a command asks, closed when it is done. */
export interface CliContext extends CliWorld {
  postgres: (use?: ServiceUse) => Promise<Sql>
  clickhouse: (use?: ServiceUse) => Promise<ClickHouse>
  nats: (use?: ServiceUse) => Promise<NatsConnection>
  /** Name of the ClickHouse cluster whose nodes hold the tables; empty: one node. */
  cluster: () => string
  /** Rejects with a `ServiceSilentError` when a watched service is silent for too long; never resolves. */
  readonly silence: Promise<never>
  /** The services that the command has asked for and that do not answer now. Takes a second at most. */
  findUnavailable: () => Promise<ServiceName[]>
  /** Milliseconds for which a service may be silent. */
  timeoutMs: number
  close: () => Promise<void>
}

/** Silence of a service that a command bears by default, in milliseconds: ten times what a loaded one needs. */
export const DEFAULT_TIMEOUT_MS = 10_000

/** Between two questions to a service, in milliseconds. Most commands are done before the first. */
const ASK_EVERY_MS = 1000

/** How long a connection may take to close, in milliseconds; the process ends anyway. */
const CLOSE_MS = 1000

/**
 * Each service that a command uses is asked every second whether it answers, on the side: a long operation may take
 * its time, and a service that hangs ends the command, whatever call waits for it.
 */
export function createCliContext (world: CliWorld): CliContext {
  const closers: (() => Promise<unknown> | unknown)[] = []
  const logger = createLogger({ component: 'cli', level: 'silent' })
  const { promise: silence, reject: tellSilence } = Promise.withResolvers<never>()
  // Nobody listens when a run is over.
  silence.catch(() => {})

  const pings = new Map<ServiceName, () => Promise<unknown>>()

  function watch (service: ServiceName, { isWatched = true }: ServiceUse, ping: () => Promise<unknown>): void {
    pings.set(service, ping)
    if (!isWatched) return
    let heardAt = performance.now()
    let isAsking = false
    const timer = setInterval(() => {
      const { timeoutMs } = context
      if (performance.now() - heardAt > timeoutMs) tellSilence(new ServiceSilentError(service, timeoutMs))
      if (isAsking) return
      isAsking = true
      // What it says is the business of the command; an error is no heartbeat.
      ping().then(() => { heardAt = performance.now() }, () => {}).finally(() => { isAsking = false })
    }, ASK_EVERY_MS)
    closers.push(() => { clearInterval(timer) })
  }

  const context: CliContext = {
    ...world,
    silence,
    async findUnavailable () {
      const checks = [...pings].map(async ([service, ping]) =>
        (await checkService(service, ping, ASK_EVERY_MS)).healthy ? [] : [service])
      return (await Promise.all(checks)).flat()
    },
    timeoutMs: DEFAULT_TIMEOUT_MS,
    async postgres (use = {}) {
      const url = await findAddress(world.env, 'DATABASE_URL')
      const sql = connectPostgres({ url, max: 1, pipeline: false })
      // The connection of the command may be busy for long.
      const aside = connectPostgres({ url, max: 1 })
      watch('postgres', use, async () => await aside`SELECT 1`)
      closers.push(async () => await sql.end({ timeout: 1 }), async () => await aside.end({ timeout: 0 }))
      return sql
    },
    async clickhouse (use = {}) {
      const client = connectClickHouse({ url: await findAddress(world.env, 'CLICKHOUSE_URL') })
      watch('clickhouse', use, async () => { await pingClickHouse(client) })
      closers.push(async () => await client.close())
      return client
    },
    async nats (use = {}) {
      const url = await findAddress(world.env, 'NATS_URL')
      const connecting = connectNats({ url, name: 'millrace-cli', logger, timeoutMs: context.timeoutMs })
      watch('nats', use, async () => { await (await connecting).flush() })
      const connection = await connecting
      closers.push(async () => await connection.close())
      return connection
    },
    cluster: () => loadSettings(world.env, ['MILLRACE_CLICKHOUSE_CLUSTER']).MILLRACE_CLICKHOUSE_CLUSTER,
    async close () {
      const { promise: late, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, CLOSE_MS)
      const closing = Promise.allSettled(closers.splice(0).map(async (close) => { await close() }))
      await Promise.race([closing, late])
      clearTimeout(timer)
    }
  }
  return context
}

export type AddressName = 'DATABASE_URL' | 'CLICKHOUSE_URL' | 'NATS_URL'

const IN_STACK = {
  DATABASE_URL: 'databaseUrl', CLICKHOUSE_URL: 'clickhouseUrl', NATS_URL: 'natsUrl'
} as const satisfies Record<AddressName, keyof StackAddresses>

/**
 * Where a command finds a service: the variable of that name, else the embedded stack that runs on the data directory
 * (`MILLRACE_DATA_DIR`), else the default of the setting.
 */
async function findAddress (env: NodeJS.ProcessEnv, name: AddressName): Promise<string> {
  const { [name]: fallback, MILLRACE_DATA_DIR: dataDir } = loadSettings(env, [name, 'MILLRACE_DATA_DIR'])
  if (env[name] !== undefined && env[name] !== '') return fallback
  try {
    return (await readAddresses(dataDir))[IN_STACK[name]]
  } catch {
    // No stack was started here: the default may still be right, and the connection says when it is not.
    return fallback
  }
}
