import { type Migration } from './read-migrations.ts'
import { renderClickHouseSql } from './render-clickhouse-sql.ts'

/** The database in which every shard shows the tables of all shards. */
export function databaseOfAllShards (database: string): string {
  return `${database}_all`
}

/** Tables that are spread over the shards, and by what: the copies of a row must meet on one shard. */
const SHARDED: Readonly<Record<string, string>> = {
  events: 'cityHash64(uuid)',
  event_volumes_by_day: 'cityHash64(project_id, event)',
  event_property_counts: 'cityHash64(project_id, event)'
}

/** Tables that every node holds whole (`{{every_node}}`). Merge, and no view, because they are read with FINAL. */
const WHOLE = ['persons', 'person_distinct_ids', 'person_overrides', 'groups'] as const

export interface DistributedTablesOptions {
  cluster: string
  /** The database of the tables of one shard, which the migrations made. */
  database: string
  /** Of `schema/clickhouse`; their views are made once more over all shards. */
  migrations: readonly Migration[]
}

/**
 * The statements that make `<database>_all`, in which the same names mean the tables of all shards: for analysts, the
 * API, and the inserts of a pipeline that spreads events over shards. They replace what is there, which holds no data,
 * so that new columns appear.
 *
 * To be run in that order, with `<database>_all` as the current database from the second on.
 */
export function distributedTables ({ cluster, database, migrations }: DistributedTablesOptions): string[] {
  const all = databaseOfAllShards(database)
  const local = quoteText(database)
  const render = (sql: string): string => renderClickHouseSql(sql, { cluster })
  return [
    `CREATE DATABASE IF NOT EXISTS "${all}" {{on_cluster}}`,
    ...Object.entries(SHARDED).map(([table, key]) =>
      `CREATE OR REPLACE TABLE "${all}".${table} {{on_cluster}} AS "${database}".${table}
ENGINE = Distributed(${quoteText(cluster)}, ${local}, ${quoteText(table)}, ${key})`),
    ...WHOLE.map((table) =>
      `CREATE OR REPLACE TABLE "${all}".${table} {{on_cluster}} AS "${database}".${table}
ENGINE = Merge(${local}, ${quoteText(`^${table}$`)})`),
    ...migrations.filter(({ sql }) => CREATE_VIEW.test(sql)).map(({ sql }) =>
      sql.replace(CREATE_VIEW, (_, name: string) => `CREATE OR REPLACE VIEW "${all}".${name}`))
  ].map(render)
}

const CREATE_VIEW = /^CREATE VIEW IF NOT EXISTS (\w+)/m

function quoteText (text: string): string {
  return `'${text.replaceAll(/['\\]/g, '\\$&')}'`
}
