import { connectClickHouse, type ClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { connectNats, type NatsConnection } from '../platform/nats/connect-nats.ts'
import { connectPostgres, type Sql } from '../platform/postgres/connect-postgres.ts'
import { createLogger } from '../platform/logger.ts'
import { loadSettings } from '../platform/load-settings.ts'
import { findAddress } from './find-address.ts'

/** What a command may use of the world; tests hand in their own. */
export interface CliWorld {
  env: NodeJS.ProcessEnv
  stdout: { write: (text: string) => unknown }
  stderr: { write: (text: string) => unknown }
  /** Epoch milliseconds. */
  now: () => number
}

/** A `CliWorld` with the connections of one run: opened when a command asks, closed when it is done. */
export interface CliContext extends CliWorld {
  postgres: () => Promise<Sql>
  clickhouse: () => Promise<ClickHouse>
  nats: () => Promise<NatsConnection>
  /** Name of the ClickHouse cluster whose nodes hold the tables; empty: one node. */
  cluster: () => string
  close: () => Promise<void>
}

export function createCliContext (world: CliWorld): CliContext {
  const closers: (() => Promise<unknown>)[] = []
  const logger = createLogger({ component: 'cli', level: 'silent' })

  return {
    ...world,
    async postgres () {
      const sql = connectPostgres({ url: await findAddress(world.env, 'DATABASE_URL'), max: 1 })
      closers.push(async () => await sql.end({ timeout: 1 }))
      return sql
    },
    async clickhouse () {
      const client = connectClickHouse({ url: await findAddress(world.env, 'CLICKHOUSE_URL') })
      closers.push(async () => await client.close())
      return client
    },
    async nats () {
      const connection = await connectNats({ url: await findAddress(world.env, 'NATS_URL'), name: 'millrace-cli', logger })
      closers.push(async () => await connection.close())
      return connection
    },
    cluster: () => loadSettings(world.env, ['MILLRACE_CLICKHOUSE_CLUSTER']).MILLRACE_CLICKHOUSE_CLUSTER,
    async close () {
      for (const close of closers.splice(0)) await close()
    }
  }
}
