import { type ClickHouseClient } from '@clickhouse/client'
import { TEMPLATE_DATABASE } from './template-database.ts'

/**
 * Creates a database as the template was when it was migrated: the same tables and views, empty, and the same
 * migrations recorded. A third of the requests that migrating takes.
 *
 * Migrating also attaches the materialized views again, for what repeats an insert after a restart of the server; the
 * server of the run is never restarted.
 *
 * @param server  A client whose database exists.
 */
export async function copyClickHouseDatabase (server: ClickHouseClient, database: string): Promise<void> {
  // What views read comes before them.
  const template = await server.query({
    query: `SELECT create_table_query AS statement FROM system.tables WHERE database = {database:String}
      ORDER BY engine LIKE '%View', name`,
    query_params: { database: TEMPLATE_DATABASE },
    format: 'JSONEachRow'
  })
  const tables = await template.json<{ statement: string }>()
  await server.command({ query: `CREATE DATABASE ${database}` })
  for (const { statement } of tables) {
    await server.command({ query: statement.replaceAll(TEMPLATE_DATABASE, database) })
  }
  await server.command({
    query: `INSERT INTO ${database}.schema_migrations SELECT * FROM ${TEMPLATE_DATABASE}.schema_migrations`
  })
}
