import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'

/** Version and size of the services; null: it does not answer. */
export interface StoresReading {
  nats: { version: string } | null
  clickhouse: { version: string, events: number, bytes: number, freeBytes: number } | null
  postgres: { version: string, bytes: number } | null
}

export interface StoreConnections {
  nats: () => Promise<NatsConnection>
  clickhouse: () => Promise<ClickHouse>
  postgres: () => Promise<Sql>
}

const TIMEOUT_MS = 3000

const CLICKHOUSE_QUERY = `
  SELECT version() AS version,
    (SELECT sum(rows) FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events') AS events,
    (SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()) AS bytes,
    (SELECT min(free_space) FROM system.disks) AS freeBytes`

/**
 * Returns a function that asks the services over connections it keeps. Never rejects.
 */
export function createReadStores (connections: StoreConnections): () => Promise<StoresReading> {
  const open: Partial<{ [K in keyof StoreConnections]: ReturnType<StoreConnections[K]> }> = {}
  return async () => {
    const [nats, clickhouse, postgres] = await Promise.all([
      orNull(async () => {
        const connection = await (open.nats ??= connections.nats())
        await connection.flush()
        return { version: connection.info?.version ?? '' }
      }, () => { delete open.nats }),
      orNull(async () => {
        const client = await (open.clickhouse ??= connections.clickhouse())
        const [row] = await (await client.query({ query: CLICKHOUSE_QUERY, format: 'JSONEachRow' })).json<Record<string, string>>()
        const { version = '', events, bytes, freeBytes } = row ?? {}
        return { version, events: Number(events), bytes: Number(bytes), freeBytes: Number(freeBytes) }
      }),
      orNull(async () => {
        const sql = await (open.postgres ??= connections.postgres())
        const [row] = await sql<[{ version: string, bytes: number }]>`
          SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS bytes`
        return { ...row }
      })
    ])
    return { nats, clickhouse, postgres }
  }
}

async function orNull<T> (read: () => Promise<T>, forget?: () => void): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>()
  const timer = setTimeout(() => resolve(null), TIMEOUT_MS)
  try {
    return await Promise.race([read(), late])
  } catch {
    forget?.()
    return null
  } finally {
    clearTimeout(timer)
  }
}
