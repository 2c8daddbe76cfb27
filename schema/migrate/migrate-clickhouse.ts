import path from 'node:path'
import { createClient } from '@clickhouse/client'
import { reattachViews, attachLeftOver, findMaterializedView } from './reattach-views.ts'
import { databaseOfAllShards, distributedTables } from './distributed-tables.ts'
import { flushInserts } from './flush-inserts.ts'
import { readMigrations, selectPending, type AppliedMigration } from './read-migrations.ts'
import { refreshEventsWithPerson } from './refresh-events-with-person.ts'
import { renderClickHouseSql, type ClickHouseTopology } from './render-clickhouse-sql.ts'

const FOLDER = path.join(import.meta.dirname, '..', 'clickhouse')

/**
 * Creates the database when it is missing and applies the pending ClickHouse migrations.
 *
 * ClickHouse has no transactional DDL: each file is one idempotent statement, and its row is written after it, so a
 * process that dies in between repeats a statement that changes nothing.
 *
 * @param url     `http://user:password@host:port/database`.
 * @param topology  One node or a cluster.
 * @returns the names of the applied migrations.
 */
export async function migrateClickHouse (url: string, topology: ClickHouseTopology): Promise<string[]> {
  const { serverUrl, database } = splitDatabase(url)
  const render = (sql: string): string => renderClickHouseSql(sql, topology)

  const server = createClient({ url: serverUrl })
  try {
    await server.command({ query: render(`CREATE DATABASE IF NOT EXISTS "${database}" {{on_cluster}}`) })
  } finally {
    await server.close()
  }

  const client = createClient({ url: serverUrl, database })
  try {
    await client.command({ query: render(CREATE_STATE) })
    const state = await client.query({ query: 'SELECT name, checksum FROM schema_migrations FINAL', format: 'JSONEachRow' })
    const applied = await state.json<AppliedMigration>()
    const migrations = await readMigrations(FOLDER)
    const pending = selectPending('clickhouse', migrations, applied)
    for (const { name, sql, checksum } of pending) {
      const view = findMaterializedView(sql)
      if (view !== null) await attachLeftOver(client, view, render('{{on_cluster}}'))
      await client.command({ query: render(sql) })
      if (view !== null) await reattachViews(client, view, render('{{on_cluster}}'))
      await client.insert({ table: 'schema_migrations', values: [{ name, checksum }], format: 'JSONEachRow' })
    }
    // Also when nothing was pending: a restore brings columns that no migration made (promoted properties).
    await refreshEventsWithPerson(client, { topology })
    await flushInserts(client, { migrations, topology })
    if (topology.cluster !== undefined) await showAllShards(serverUrl, { cluster: topology.cluster, database })
    return pending.map(({ name }) => name)
  } finally {
    await client.close()
  }
}

/** Not run by any test: the embedded engine knows no clusters. What it runs is parsed by `test/cluster`. */
async function showAllShards (serverUrl: string, options: { cluster: string, database: string }): Promise<void> {
  const [createDatabase = '', ...rest] = distributedTables({ ...options, migrations: await readMigrations(FOLDER) })
  const server = createClient({ url: serverUrl })
  const client = createClient({ url: serverUrl, database: databaseOfAllShards(options.database) })
  try {
    await server.command({ query: createDatabase })
    for (const query of rest) await client.command({ query })
  } finally {
    await Promise.all([server.close(), client.close()])
  }
}

const CREATE_STATE = `CREATE TABLE IF NOT EXISTS schema_migrations {{on_cluster}}
(
    name String COMMENT 'File of schema/clickhouse without its ending',
    checksum String COMMENT 'SHA-256 of the file, in hex',
    applied_at DateTime DEFAULT now() COMMENT 'When it was applied'
)
ENGINE = {{replicated}}ReplacingMergeTree
ORDER BY name
COMMENT 'Migrations that this database has'`

function splitDatabase (text: string): { serverUrl: string, database: string } {
  const url = new URL(text)
  const database = url.pathname.slice(1) || 'millrace'
  url.pathname = '/'
  return { serverUrl: url.href, database }
}
