import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { onCluster, onEachReplica, onEachShard, systemTable } from './connect-clickhouse.ts'

/** A name that has to be quoted. */
const CLUSTER = "mill'race"

t.test('the engine parses what reaches every node of a cluster', async (t) => {
  const { client } = await createTestClickHouse(t)

  for (const query of [
    `DELETE FROM events ${onCluster(CLUSTER)} WHERE project_id = 1`,
    `ALTER TABLE events ${onCluster(CLUSTER)} DELETE WHERE project_id = 1`,
    `ALTER TABLE events ${onCluster(CLUSTER)} DROP PARTITION 202601`,
    `SELECT count() FROM ${onEachShard(CLUSTER, 'events')} WHERE project_id = 1 SETTINGS final = 0`,
    `SELECT count() FROM ${onEachReplica(CLUSTER, 'events')} WHERE project_id = 1 SETTINGS final = 0`,
    `SELECT partition FROM ${systemTable(CLUSTER, 'parts')}`
  ]) {
    const answer = await client.query({ query: `EXPLAIN AST ${query}`, format: 'TabSeparated' })
    t.match(await answer.text(), /\w/, query)
    t.match(query, /'mill\\'race'/)
  }
})
