import path from 'node:path'
import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createEverywhere } from '../../schema/migrate/migrate-clickhouse.ts'
import { distributedTables, renderClickHouseSql } from '../../schema/migrate/clickhouse-topology.ts'
import { readMigrations, splitStatements } from '../../schema/migrate/read-migrations.ts'
import { createTestClickHouse } from '../support/test-stores.ts'

const FOLDER = path.join(import.meta.dirname, '..', '..', 'schema', 'clickhouse')
/** A name that has to be quoted. */
const CLUSTER = "mill'race"

t.test('the engine parses every statement of a cluster', async (t) => {
  const { client } = await createTestClickHouse(t)
  const migrations = await readMigrations(FOLDER)
  const statements = [
    ...migrations.flatMap((migration) => splitStatements(migration).map((sql, index) =>
      ({ name: `${migration.name}, statement ${index}`, sql: renderClickHouseSql(sql, { cluster: CLUSTER }) }))),
    ...distributedTables({ cluster: CLUSTER, database: 'millrace', migrations })
      .map((sql, index) => ({ name: `of all shards ${index}`, sql }))
  ]

  for (const { name, sql } of statements) {
    const answer = await client.query({ query: `EXPLAIN AST ${sql}`, format: 'TabSeparated' })
    t.match(await answer.text(), /^(Create|Alter)/, name)
    t.match(sql, /ON CLUSTER 'mill\\'race'/, `${name} reaches every node`)
  }

  const all = statements.map(({ sql }) => sql).join('\n')
  for (const engine of [/ENGINE = ReplicatedReplacingMergeTree\b/, /ENGINE = ReplicatedAggregatingMergeTree\b/, /ENGINE = Distributed\(/]) {
    t.match(all, engine)
  }
  t.notMatch(all, /ENGINE = (Replacing|Aggregating)MergeTree/)
  // A path with a uuid, as the server's own default has, is another one on a node that is added later.
  const tables = statements.filter(({ sql }) => /ENGINE = Replicated/.test(sql))
  t.ok(tables.length >= 10)
  for (const { name, sql } of tables) t.match(sql, /MergeTree\('\/clickhouse\/tables\/(\{shard\}|all)\/\{database\}\/\{table\}', '[{}a-z-]+'[,)]/, name)
})

t.test('what a node shows of a table is created on the nodes that lack it', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const rows = await client.query({
    query: "SELECT engine, create_table_query AS statement FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE '.%'",
    format: 'JSONEachRow'
  })
  const shown = await rows.json<{ engine: string, statement: string }>()
  t.same(new Set(shown.map(({ engine }) => engine.replace(/^\w*MergeTree/, 'MergeTree'))), new Set(['MergeTree', 'Memory', 'View', 'MaterializedView']))
  const database = new URL(url).pathname.slice(1)
  for (const { statement } of shown) {
    const everywhere = createEverywhere(statement, CLUSTER)
    t.match(everywhere, new RegExp(`^CREATE (TABLE|VIEW|MATERIALIZED VIEW) IF NOT EXISTS ${database}\\.\\w+ ON CLUSTER 'mill\\\\'race' `))
    const answer = await client.query({ query: `EXPLAIN AST ${everywhere}`, format: 'TabSeparated' })
    t.match(await answer.text(), /^Create/)
  }
})

t.test('what it makes over all shards reads like the tables themselves, but for the engine', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const database = new URL(url).pathname.slice(1)
  const migrations = await readMigrations(FOLDER)
  const overAll = connectClickHouse({ url: `${url}_all` })
  t.teardown(async () => {
    await overAll.close()
    await client.command({ query: `DROP DATABASE IF EXISTS "${database}_all"` })
  })
  for (const sql of distributedTables({ cluster: 'one', database, migrations })) {
    // The embedded engine knows no cluster: one shard is this node, and is read through the engine Merge.
    const here = sql.replace("ON CLUSTER 'one'", '').replace(/Distributed\('one', '(\w+)', '(\w+)', .*\)/,
      (_, from: string, table: string) => `Merge('${from}', '^${table}$')`)
    await (here.startsWith('CREATE DATABASE') ? client : overAll).command({ query: here })
  }

  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [{ project_id: 1, uuid: '018f0000-0000-7000-8000-000000000001', event: 'seen', distinct_id: 'u', timestamp: 1e9 }]
  })
  for (const table of ['events', 'events_with_person', 'event_volumes', 'event_volumes_by_day']) {
    const answer = await overAll.query({ query: `SELECT count() AS n FROM ${table}`, format: 'JSONEachRow' })
    t.match(await answer.json(), [{ n: /^1$/ }], table)
  }
})
