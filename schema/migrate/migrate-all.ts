import path from 'node:path'
import { runner } from 'node-pg-migrate'
import { Client } from 'pg'
import type { ClickHouseTopology } from './clickhouse-topology.ts'
import { migrateClickHouse } from './migrate-clickhouse.ts'
import { readAppliedOfPostgres, readMigrations, refuseToGoBack, selectPending } from './read-migrations.ts'
import { changedFilesByHand, type Query, readSchemaVersion, recordSchemaVersion } from './schema-versions.ts'

/** Any number, the same in every version: the advisory lock that makes migrating processes take turns. */
const MIGRATION_LOCK = 4_725_371

const POSTGRES_FOLDER = path.join(import.meta.dirname, '..', 'postgres')

export interface MigrateOptions {
  databaseUrl: string
  clickhouseUrl: string
  /** Default: one node. */
  topology?: ClickHouseTopology
  /** Names of the migrations of an earlier version, whose data is about to be restored. Default: all. */
  only?: { postgres: readonly string[], clickhouse: readonly string[] }
  /** Called once with those of `FILES_BY_HAND` that changed since the version that migrated last. */
  onFilesByHand?: (files: string[]) => unknown
  /** Called with the tables and views created on nodes of a ClickHouse cluster that lacked them. */
  onCreated?: (names: string[]) => unknown
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
    const query = askWith(client)
    const newest = await readSchemaVersion(query)
    refuseToGoBack(newest)
    const { clickhouseUrl, topology = {}, only } = options
    const postgres = await migratePostgres(client, only?.postgres)
    const clickhouse = await migrateClickHouse(clickhouseUrl, topology, only?.clickhouse, options.onCreated)
    if (only === undefined) {
      const changed = newest === undefined ? [] : await changedFilesByHand(newest)
      await recordSchemaVersion(query)
      // From here on they are those of the version that is recorded, whoever asks.
      if (changed.length > 0) options.onFilesByHand?.(changed)
    }
    return [...postgres.map((name) => `postgres/${name}`), ...clickhouse.map((name) => `clickhouse/${name}`)]
  } finally {
    // Ends the session and with it the lock.
    await client.end()
  }
}

function askWith (client: Client): Query {
  return async (text, parameters) => await client.query<Record<string, unknown>>(text, parameters)
}

/**
 * Applies the pending Postgres migrations, each in a transaction of its own together with the row that records it.
 *
 * The caller holds the migration lock (see `migrateAll`), so no other process migrates meanwhile.
 *
 * @param only  Names of those to apply; absent: all.
 * @returns the names of the applied migrations.
 */
export async function migratePostgres (client: Client, only?: readonly string[]): Promise<string[]> {
  await client.query(`CREATE TABLE IF NOT EXISTS schema_migration_checksums (
    name text PRIMARY KEY,
    checksum text NOT NULL
  )`)
  const migrations = await readMigrations(POSTGRES_FOLDER)
  const isWanted = ({ name }: { name: string }): boolean => only?.includes(name) ?? true
  const pending = selectPending('postgres', migrations, await readAppliedOfPostgres(askWith(client))).filter(isWanted)
  if (pending.length === 0) return []

  const names: string[] = []
  // One by one only where it must be: the runner reads the whole folder each time.
  for (const file of only === undefined ? [undefined] : pending.map(({ name }) => name)) {
    const applied = await runner({
      dbClient: client,
      dir: POSTGRES_FOLDER,
      direction: 'up',
      migrationsTable: 'schema_migrations',
      singleTransaction: false,
      noLock: true,
      // Migrations are numbered by subject: one with a lower number may be younger than those that a database has.
      checkOrder: false,
      ...file === undefined ? {} : { file },
      log: () => {}
    })
    names.push(...applied.map(({ name }) => name))
  }
  // A process that dies between the runner and this line leaves migrations without checksum: they are recorded by
  // the next run, which finds nothing pending in the runner's own table.
  for (const { name, checksum } of migrations.filter(isWanted)) {
    await client.query('INSERT INTO schema_migration_checksums VALUES ($1, $2) ON CONFLICT DO NOTHING', [name, checksum])
  }
  return names
}
