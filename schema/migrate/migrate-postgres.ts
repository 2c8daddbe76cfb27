import path from 'node:path'
import { runner } from 'node-pg-migrate'
import { type Client } from 'pg'
import { readMigrations, selectPending, type AppliedMigration } from './read-migrations.ts'

const FOLDER = path.join(import.meta.dirname, '..', 'postgres')

/**
 * Applies the pending Postgres migrations, each in a transaction of its own together with the row that says so.
 *
 * The caller holds the migration lock (see `migrateAll`), so no second process is at it.
 *
 * @returns the names of the applied migrations.
 */
export async function migratePostgres (client: Client): Promise<string[]> {
  await client.query(`CREATE TABLE IF NOT EXISTS schema_migration_checksums (
    name text PRIMARY KEY,
    checksum text NOT NULL
  )`)
  const migrations = await readMigrations(FOLDER)
  const { rows } = await client.query<AppliedMigration>('SELECT name, checksum FROM schema_migration_checksums')
  if (selectPending('postgres', migrations, rows).length === 0) return []

  const applied = await runner({
    dbClient: client,
    dir: FOLDER,
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
