import path from 'node:path'
import { runner } from 'node-pg-migrate'
import { Client } from 'pg'
import type { ClickHouseTopology } from './clickhouse-topology.ts'
import { migrateClickHouse } from './migrate-clickhouse.ts'
import { type AppliedMigration, readMigrations, selectPending } from './read-migrations.ts'

/** Any number, the same in every version: the advisory lock that makes migrating processes take turns. */
const MIGRATION_LOCK = 4_725_371

const POSTGRES_FOLDER = path.join(import.meta.dirname, '..', 'postgres')

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

/**
 * Applies the pending Postgres migrations, each in a transaction of its own together with the row that records it.
 *
 * The caller holds the migration lock (see `migrateAll`), so no other process migrates meanwhile.
 *
 * @returns the names of the applied migrations.
 */
export async function migratePostgres (client: Client): Promise<string[]> {
  await client.query(`CREATE TABLE IF NOT EXISTS schema_migration_checksums (
    name text PRIMARY KEY,
    checksum text NOT NULL
  )`)
  const migrations = await readMigrations(POSTGRES_FOLDER)
  const { rows } = await client.query<AppliedMigration>('SELECT name, checksum FROM schema_migration_checksums')
  if (selectPending('postgres', migrations, rows).length === 0) return []

  const applied = await runner({
    dbClient: client,
    dir: POSTGRES_FOLDER,
    direction: 'up',
    migrationsTable: 'schema_migrations',
    singleTransaction: false,
    noLock: true,
    log: () => {}
  })
  const names = applied.map(({ name }) => name)
  // A process that dies between the runner and this line leaves migrations without checksum: they are recorded by
  // the next run, which finds nothing pending in the runner's own table.
  for (const { name, checksum } of migrations) {
    await client.query('INSERT INTO schema_migration_checksums VALUES ($1, $2) ON CONFLICT DO NOTHING', [name, checksum])
  }
  return names
}
