import { Client } from 'pg'
import { migrateClickHouse } from './migrate-clickhouse.ts'
import { migratePostgres } from './migrate-postgres.ts'
import { type ClickHouseTopology } from './render-clickhouse-sql.ts'

/** Any number, the same in every version: the advisory lock that makes migrating processes take turns. */
const MIGRATION_LOCK = 4_725_371

export interface MigrateOptions {
  databaseUrl: string
  clickhouseUrl: string
  /** Default: one node. */
  topology?: ClickHouseTopology
}

/**
 * Brings both databases to the schema of this version. Safe to call from many processes at once: they take turns,
 * and all but the first find nothing to do. A run that died half-way is continued by the next.
 *
 * @returns the names of the applied migrations, prefixed with their database.
 * @throws {MigrationError} when a database is newer than this version or a released migration was edited.
 */
export async function migrateAll (options: MigrateOptions): Promise<string[]> {
  const client = new Client({ connectionString: options.databaseUrl })
  await client.connect()
  try {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    const postgres = await migratePostgres(client)
    const clickhouse = await migrateClickHouse(options.clickhouseUrl, options.topology ?? {})
    return [...postgres.map((name) => `postgres/${name}`), ...clickhouse.map((name) => `clickhouse/${name}`)]
  } finally {
    // Ends the session and with it the lock.
    await client.end()
  }
}
