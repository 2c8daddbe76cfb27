import path from 'node:path'
import { Client } from 'pg'
import { MillraceError } from '../../engines/errors.ts'
import type { ClickHouseTopology } from './clickhouse-topology.ts'
import { migrateClickHouse } from './migrate-clickhouse.ts'
import { readAppliedOfPostgres, readMigrations, selectPending } from './read-migrations.ts'
import { describeNewerDatabase, type Query, readSchemaVersion, recordSchemaVersion } from './schema-versions.ts'

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
  /** Called with the tables and views created on nodes of a ClickHouse cluster that lacked them. */
  onCreated?: (names: string[]) => unknown
}

/**
 * Brings both databases to the schema of this version. Safe to call from many processes at once: they take turns,
 * and all but the first find nothing to do. A run that died half-way is continued by the next.
 *
 * @returns the names of the applied migrations, prefixed with their database.
 * @throws {MillraceError} when a database is newer than this version or a released migration was edited.
 */
export async function migrateAll (options: MigrateOptions): Promise<string[]> {
  const client = new Client({ connectionString: options.databaseUrl })
  await client.connect()
  try {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    const query = askWith(client)
    // Whether or not its migrations are unknown here: a release may have none.
    const newer = describeNewerDatabase(await readSchemaVersion(query))
    if (newer !== undefined) throw new MillraceError('MILLRACE_DATABASE_NEWER', newer.why)
    const { clickhouseUrl, topology = {}, only } = options
    const postgres = await migratePostgres(client, only?.postgres)
    const clickhouse = await migrateClickHouse(clickhouseUrl, topology, only?.clickhouse, options.onCreated)
    if (only === undefined) await recordSchemaVersion(query)
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
  const applied = await readAppliedOfPostgres(askWith(client))
  const names: string[] = []
  for (const { name, sql, checksum } of selectPending('postgres', migrations, applied)) {
    if (only?.includes(name) === false) continue
    await client.query('BEGIN')
    // A process of 0.1.0 that died left migrations without checksum.
    if (applied.every((each) => each.name !== name)) {
      await client.query(sql)
      names.push(name)
    }
    await client.query('INSERT INTO schema_migration_checksums VALUES ($1, $2)', [name, checksum])
    await client.query('COMMIT')
  }
  return names
}
