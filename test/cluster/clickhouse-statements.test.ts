import path from 'node:path'
import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
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
