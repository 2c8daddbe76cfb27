import { findRunningStack, type StackAddresses } from '../embedded/data-dir/stack-access.ts'
import { type ClickHouse, connectClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../engines/errors.ts'
import { checkService, pingClickHouse } from '../platform/health-and-readiness.ts'
import { loadSettings } from '../platform/load-settings.ts'
import { createLogger } from '../platform/logger.ts'
import { connectNats, type NatsConnection } from '../platform/nats/connect-nats.ts'
import { connectPostgres, type Sql } from '../platform/postgres/connect-postgres.ts'
import {
  createManagementClient, findManagementApi, type ManagementAccess, type ManagementClient
} from './management-client.ts'

/** What a command uses of its process; tests pass their own. */
export interface CliWorld {
  env: NodeJS.ProcessEnv
  stdout: { write: (text: string) => unknown }
  stderr: { write: (text: string) => unknown }
  /** Epoch milliseconds. */
  now: () => number
}

/** The services that commands use, each with the setting that has its address. */
export const SERVICE_SETTINGS = { postgres: 'DATABASE_URL', clickhouse: 'CLICKHOUSE_URL', nats: 'NATS_URL' } as const
export type ServiceName = keyof typeof SERVICE_SETTINGS

/** A `CliWorld` with the connections of one command: opened on demand, closed at its end. */
export interface CliContext extends CliWorld {
  /** The management API, with the address and key of the options, the environment, or the local stack. */
  api: ManagementClient
  /** Watched by default: the command fails when the service does not answer for longer than `--timeout`. */
  postgres: (isWatched?: boolean) => Promise<Sql>
  clickhouse: (isWatched?: boolean) => Promise<ClickHouse>
  nats: (isWatched?: boolean) => Promise<NatsConnection>
  /** Name of the ClickHouse cluster that has the tables, of the settings or the local stack; empty: one node. */
  cluster: () => Promise<string>
  /** Rejects with a `ServiceTimeoutError` when a watched service does not answer for too long; never resolves. */
  readonly silence: Promise<never>
  /** Which services of the command do not answer now. Takes a second at most. */
  findUnavailable: () => Promise<ServiceName[]>
  /** How long a service may not answer, in milliseconds. */
  timeoutMs: number
  /** Given as options: address of the management API, and personal key. */
  access: Partial<ManagementAccess>
  /** Exit code of a command that did what it should; 0 unless the command sets another one. */
  exitCode: number
  close: () => Promise<void>
}

/** Default of `--timeout`, in milliseconds: ten times what a service under load needs to answer. */
export const DEFAULT_TIMEOUT_MS = 10_000

/** Exit code of a command that got no answer, or not all of one: nobody may take one for the other. */
export const NO_ANSWER = 3

/** Interval of pinging the services, in milliseconds. Most commands end before the first ping. */
const PING_INTERVAL_MS = 1000

/** Maximum wait for connections to close, in milliseconds; the process ends anyway. */
const CLOSE_MS = 1000

export type AddressName = 'DATABASE_URL' | 'CLICKHOUSE_URL' | 'NATS_URL'

const IN_STACK = {
  DATABASE_URL: 'databaseUrl', CLICKHOUSE_URL: 'clickhouseUrl', NATS_URL: 'natsUrl'
} as const satisfies Record<AddressName, keyof StackAddresses>

/**
 * Creates the context of one command. It pings each service that the command uses every second: a long operation may
 * take its time, while a service that hangs ends the command, whatever call waits for it.
 */
export function createCliContext (world: CliWorld): CliContext {
  const closers: (() => Promise<unknown> | unknown)[] = []
  const logger = createLogger({ component: 'cli', level: 'silent' })
  const { promise: silence, reject: reportSilence } = Promise.withResolvers<never>()
  // Without a listener, a rejection after the command's end would be unhandled.
  silence.catch(() => {})

  const pings = new Map<ServiceName, () => Promise<unknown>>()
  const watch = (service: ServiceName, isWatched: boolean, ping: () => Promise<unknown>): void => {
    pings.set(service, ping)
    if (!isWatched) return
    closers.push(pingEachSecond(ping, (silentMs) => {
      if (silentMs > context.timeoutMs) reportSilence(new ServiceTimeoutError(service, context.timeoutMs))
    }))
  }

  const context: CliContext = {
    ...world,
    silence,
    async findUnavailable () {
      const checks = [...pings].map(async ([service, ping]) =>
        (await checkService(service, ping, PING_INTERVAL_MS)).healthy ? [] : [service])
      return (await Promise.all(checks)).flat()
    },
    timeoutMs: DEFAULT_TIMEOUT_MS,
    access: {},
    exitCode: 0,
    api: createManagementClient(
      async () => await findManagementApi(world.env, context.access), () => context.timeoutMs
    ),
    async postgres (isWatched = true) {
      const url = await findAddress(world.env, 'DATABASE_URL')
      // Commands wait for a slow server until --timeout, except those that show which servers are unavailable.
      const patience = isWatched ? { connectTimeoutMs: context.timeoutMs } : {}
      // Retention works beside the transaction that holds its lock.
      const sql = connectPostgres({ url, max: 2, ...patience })
      // A connection of its own, because that of the command may be busy for long.
      const pinging = connectPostgres({ url, max: 1 })
      watch('postgres', isWatched, async () => await pinging`SELECT 1`)
      closers.push(async () => await sql.end({ timeout: 1 }), async () => await pinging.end({ timeout: 0 }))
      return sql
    },
    async clickhouse (isWatched = true) {
      const client = connectClickHouse({ url: await findAddress(world.env, 'CLICKHOUSE_URL'), cluster: await context.cluster() })
      watch('clickhouse', isWatched, async () => { await pingClickHouse(client) })
      closers.push(async () => await client.close())
      return client
    },
    async nats (isWatched = true) {
      const url = await findAddress(world.env, 'NATS_URL')
      const connecting = connectNats({ url, name: 'millrace-cli', logger, timeoutMs: context.timeoutMs })
      watch('nats', isWatched, async () => { await (await connecting).flush() })
      const connection = await connecting
      closers.push(async () => await connection.close())
      return connection
    },
    cluster: async () => {
      const settings = loadSettings(world.env, ['MILLRACE_CLICKHOUSE_CLUSTER', 'MILLRACE_DATA_DIR'])
      if (settings.MILLRACE_CLICKHOUSE_CLUSTER !== '' || (world.env.CLICKHOUSE_URL ?? '') !== '') return settings.MILLRACE_CLICKHOUSE_CLUSTER
      return (await findRunningStack(settings.MILLRACE_DATA_DIR))?.clickhouseCluster ?? ''
    },
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

/** Counts only seconds in which this process ran: Ctrl-Z suspends it. @returns what ends it. */
function pingEachSecond (ping: () => Promise<unknown>, onSecond: (silentMs: number) => void): () => void {
  let silentMs = 0
  let isPinging = false
  const timer = setInterval(() => {
    onSecond(silentMs += PING_INTERVAL_MS)
    if (isPinging) return
    isPinging = true
    // A failed ping is not an answer; its error is reported by the command's own calls.
    ping().then(() => { silentMs = 0 }, () => {}).finally(() => { isPinging = false })
  }, PING_INTERVAL_MS)
  return () => { clearInterval(timer) }
}

export class ServiceTimeoutError extends MillraceError {
  constructor (service: ServiceName, timeoutMs: number) {
    super('MILLRACE_SERVICE_TIMEOUT', `${service} did not answer for ${timeoutMs / 1000} s, so the command gave up: ` +
      'a change may or may not have been applied')
    this.name = 'ServiceTimeoutError'
  }
}

/**
 * Finds the address of a service: the setting of that name, else the embedded stack that runs on the data directory
 * (`MILLRACE_DATA_DIR`), else, where none was ever started, the default of the setting.
 *
 * @throws {MillraceError} when the stack on the data directory is stopped, or this user may not read it.
 */
export async function findAddress (env: NodeJS.ProcessEnv, name: AddressName): Promise<string> {
  const { [name]: fallback, MILLRACE_DATA_DIR: dataDir } = loadSettings(env, [name, 'MILLRACE_DATA_DIR'])
  if (env[name] !== undefined && env[name] !== '') return fallback
  return (await findRunningStack(dataDir))?.[IN_STACK[name]] ?? fallback
}
