import type { ClickHouseClient } from '@clickhouse/client'
import { quoteString } from '../../engines/sql/clickhouse-sql.ts'

/** A table or view as one of the nodes has it. */
interface Created {
  name: string
  statement: string
}

/** Tables first, because views read them; then views that store, then those that only read. */
const ORDER = ['MaterializedView', 'View']

const CREATE = /^CREATE (TABLE|MATERIALIZED VIEW|VIEW) (\S+)/

/**
 * Creates what some nodes of a cluster have and others lack, as on a node that was added: the tables as they are now,
 * promoted columns included, whichever node the client is connected to. Their paths in Keeper follow from the macros of
 * each node, so a new replica joins its shard and copies its rows.
 *
 * A node that does not answer is left to the next run.
 *
 * @returns names of what was created.
 */
export async function fillNewNodes (client: ClickHouseClient, cluster: string): Promise<string[]> {
  const nodes = `clusterAllReplicas(${quoteString(cluster)}`
  const result = await client.query({
    query: `SELECT name, any(create_table_query) AS statement FROM ${nodes}, system.tables)
      WHERE database = currentDatabase() AND NOT startsWith(name, '.')
      GROUP BY name, engine HAVING count() < (SELECT count() FROM ${nodes}, system.one))
      ORDER BY indexOf(${`[${ORDER.map(quoteString).join()}]`}, engine), name`,
    format: 'JSONEachRow'
  })
  const missing = await result.json<Created>()
  for (const { statement } of missing) await client.command({ query: createEverywhere(statement, cluster) })
  return missing.map(({ name }) => name)
}

/** The statement by which a server shows a table, for all nodes that lack it. */
export function createEverywhere (statement: string, cluster: string): string {
  return statement.replace(CREATE, (_, kind: string, name: string) =>
    `CREATE ${kind} IF NOT EXISTS ${name} ON CLUSTER ${quoteString(cluster)}`)
}
