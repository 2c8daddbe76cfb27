import type { ClickHouseClient } from '@clickhouse/client'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { CLICKHOUSE_FOLDER, findMaterializedView, FLUSH_SETTINGS, flushInserts, migrateClickHouse } from './migrate-clickhouse.ts'
import { listObjects, type Migration, readMigrations, splitStatements } from './read-migrations.ts'

/** What the engine really uses, by table: its own words for the table's settings. */
async function readEngines (client: ClickHouseClient): Promise<{ name: string, engine_full: string }[]> {
  const result = await client.query({
    query: "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'",
    format: 'JSONEachRow'
  })
  return await result.json()
}

t.test('every table that Millrace writes flushes inserts and merges, whichever migration made it', async (t) => {
  const { client } = await createTestClickHouse(t)

  const tables = await readEngines(client)

  t.ok(tables.length >= 8)
  for (const { name, engine_full: engine } of tables) {
    for (const [setting, value] of Object.entries(FLUSH_SETTINGS)) t.match(engine, `${setting} = ${value}`, `${name}: ${setting}`)
  }
})

t.test('the tables and views that a new node gets are those of the migrations', async (t) => {
  const { client } = await createTestClickHouse(t)
  await client.command({ query: 'CREATE DICTIONARY plans (id UInt64) PRIMARY KEY id SOURCE(NULL()) LAYOUT(FLAT()) LIFETIME(0)' })
  const answer = await client.query({ query: "SELECT name FROM system.tables WHERE database = currentDatabase() AND name NOT IN ('plans', 'schema_migrations')", format: 'JSONEachRow' })
  const there = await answer.json<{ name: string }>()
  t.same(listObjects(await readMigrations(CLICKHOUSE_FOLDER)).sort(), there.map(({ name }) => name).sort())
})

t.test('a table that was restored from an older backup gets the settings with the next migration', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  await client.command({ query: 'DROP TABLE groups' })
  await client.command({ query: 'CREATE TABLE groups (project_id UInt32) ENGINE = ReplacingMergeTree ORDER BY project_id' })

  await migrateClickHouse(url, {})

  const groups = (await readEngines(client)).find(({ name }) => name === 'groups')
  t.match(groups?.engine_full, 'fsync_after_insert = 1')
})

t.test('a node of a cluster that is not named as one is refused', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const all = `${new URL(url).pathname.slice(1)}_all`
  await client.command({ query: `CREATE DATABASE ${all}` })
  t.teardown(async () => { await client.command({ query: `DROP DATABASE ${all}` }) })

  await t.rejects(migrateClickHouse(url, {}), { code: 'MILLRACE_MIGRATION_TOPOLOGY', message: /of a cluster: set MILLRACE_CLICKHOUSE_CLUSTER/ })
})

t.test('leaves alone what somebody chose, and tables that are not ours', async (t) => {
  const { client } = await createTestClickHouse(t)
  await client.command({ query: 'CREATE TABLE chosen (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS fsync_after_insert = 0' })
  await client.command({ query: 'CREATE TABLE strange (a UInt8) ENGINE = MergeTree ORDER BY a' })
  const migrations = [{ name: '0001_create_chosen', sql: '-- Why.\nCREATE TABLE IF NOT EXISTS chosen (a UInt8)', checksum: '' }]

  t.same(await flushInserts(client, { migrations: migrations satisfies Migration[], topology: {} }), [])

  const strange = (await readEngines(client)).find(({ name }) => name === 'strange')
  t.notMatch(strange?.engine_full, 'fsync')
})

t.test('a migration has several statements, whose texts may hold a semicolon', (t) => {
  const sql = "-- Why; because.\nCREATE TABLE a (b UInt8 COMMENT 'c; d');\n\n-- Next.\nCREATE TABLE e (f UInt8);\n"
  t.same(splitStatements({ sql }), ["-- Why; because.\nCREATE TABLE a (b UInt8 COMMENT 'c; d')", '\n-- Next.\nCREATE TABLE e (f UInt8)'])
  t.same(splitStatements({ sql: 'SELECT 1' }), ['SELECT 1'])
  t.end()
})

t.test('knows the statements that create or alter a materialized view', (t) => {
  t.equal(findMaterializedView('-- Why.\nCREATE MATERIALIZED VIEW IF NOT EXISTS volumes_view {{on_cluster}} TO volumes AS'), 'volumes_view')
  t.equal(findMaterializedView("ALTER TABLE volumes_view {{on_cluster}}\n  MODIFY COMMENT ''"), 'volumes_view')
  t.equal(findMaterializedView('CREATE TABLE IF NOT EXISTS volumes (a UInt8)'), null)
  t.equal(findMaterializedView('ALTER TABLE volumes ADD COLUMN b UInt8'), null)
  t.end()
})
