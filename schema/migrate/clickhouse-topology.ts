import { quoteString } from 'chdb-server/sql-lexer'
import { type Migration, splitStatements } from './read-migrations.ts'

/** Where the tables live: on one node, or replicated on the nodes of a cluster. */
export interface ClickHouseTopology {
  /** Name of the cluster in the server's `remote_servers`; absent for one node. */
  cluster?: string
}

/**
 * How many inserted blocks each table remembers to recognise a repeated insert (docs/decisions/0049). An insert counts
 * one block for each month it touches; 100,000 blocks at two inserts a second are more than half a day.
 * A replicated table also forgets by time: seven days before its newest token, not the server's default of one hour.
 */
const WINDOW_BLOCKS = 100_000
const WINDOW_SECONDS = 604_800

/**
 * Fills in the placeholders of `schema/clickhouse/*.sql`, which are the same for one node and for a cluster:
 * `{{on_cluster}}`, `{{replicated}}` (prefix of the engine's name), `{{deduplication_window}}` (table settings),
 * `{{this_shard}}` (engine arguments: the replicas of a shard have the same rows), `{{every_node}}` (a small table that
 * every node has whole, so that any shard can join it; `{{whole}}` without further arguments), and `{{in_memory}}`: the
 * engine of a table of a few rows, in memory on one node, replicated on a cluster.
 *
 * The paths in Keeper follow from macros and names. The server's default has the table's uuid in it, which is new on a
 * node that is added later: its tables would be alone.
 */
export function renderClickHouseSql (sql: string, { cluster }: ClickHouseTopology): string {
  const thisShard = cluster === undefined ? '' : "('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')"
  const values: Record<string, string> = {
    on_cluster: cluster === undefined ? '' : `ON CLUSTER ${quoteString(cluster)}`,
    replicated: cluster === undefined ? '' : 'Replicated',
    this_shard: thisShard,
    every_node: cluster === undefined ? '' : "'/clickhouse/tables/all/{database}/{table}', '{shard}-{replica}', ",
    whole: cluster === undefined ? '' : "('/clickhouse/tables/all/{database}/{table}', '{shard}-{replica}')",
    in_memory: cluster === undefined
      ? 'Memory SETTINGS min_rows_to_keep = 16, max_rows_to_keep = 64'
      : `ReplicatedAggregatingMergeTree${thisShard} ORDER BY id`,
    deduplication_window: cluster === undefined
      ? `non_replicated_deduplication_window = ${WINDOW_BLOCKS}`
      : `replicated_deduplication_window = ${WINDOW_BLOCKS}, replicated_deduplication_window_seconds = ${WINDOW_SECONDS}`
  }
  return sql.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`unknown placeholder {{${name}}} in a ClickHouse migration`)
    return value
  })
}

/** Settings of a query of every node that answers; one that hangs still gets connections, and is passed over, too. */
export const ANSWERING_NODES = 'skip_unavailable_shards = 1, receive_timeout = 3, handshake_timeout_ms = 1000'

/**
 * `distributed_ddl_output_mode` of every client: a statement for all nodes does not wait for a dead one, which does
 * what it missed when it is back. The types of the client lack this value; ClickHouse 26.7 has it.
 */
export const ONLY_ACTIVE_NODES = 'throw_only_active' as 'throw'

/** The database in which every shard shows the tables of all shards. */
export function databaseOfAllShards (database: string): string {
  return `${database}_all`
}

/** Tables that are spread over the shards, and by what: the copies of a row must meet on one shard. */
const SHARDED: Readonly<Record<string, string>> = {
  events: 'cityHash64(uuid)',
  event_volumes_by_day: 'cityHash64(project_id, event)',
  event_property_counts: 'cityHash64(project_id, event)',
  event_traces: 'cityHash64(uuid)',
  ingestion_warnings_by_source: 'cityHash64(project_id, source)',
  // One row, so on one shard.
  watermark_reached: 'id',
  ledger_by_source: 'cityHash64(project_id, source)'
}

/** Tables that every node holds whole (`{{every_node}}`). Merge, and no view, because most are read with FINAL. */
export const WHOLE_TABLES: readonly string[] = ['persons', 'person_distinct_ids', 'person_overrides', 'groups', 'cohort_members']

/** Where a replicated table of a node is, as `renderClickHouseSql` places it, once the macros are filled in. */
export const pathInKeeper = (database: string, table: string, shard: string): string =>
  `/clickhouse/tables/${[...WHOLE_TABLES, 'schema_migrations'].includes(table) ? 'all' : shard}/${database}/${table}`

const CREATE_VIEW = /^CREATE (?:OR REPLACE VIEW|VIEW IF NOT EXISTS) (\w+)/m

export interface DistributedTablesOptions {
  cluster: string
  /** The database of the tables of one shard, which the migrations made. */
  database: string
  /** Of `schema/clickhouse`; their views are made once more over all shards. */
  migrations: readonly Migration[]
}

/**
 * The statements that make `<database>_all`, in which the same names mean the tables of all shards: for analysts, the
 * API, and the inserts of a pipeline that spreads events over shards. They replace existing tables, which hold no data,
 * so that new columns appear.
 *
 * To be run in that order, with `<database>_all` as the current database from the second on.
 */
export function distributedTables ({ cluster, database, migrations }: DistributedTablesOptions): string[] {
  const all = databaseOfAllShards(database)
  const local = quoteString(database)
  const render = (sql: string): string => renderClickHouseSql(sql, { cluster })
  return [
    `CREATE DATABASE IF NOT EXISTS "${all}" {{on_cluster}}`,
    ...Object.entries(SHARDED).map(([table, key]) =>
      `CREATE OR REPLACE TABLE "${all}".${table} {{on_cluster}} AS "${database}".${table}
ENGINE = Distributed(${quoteString(cluster)}, ${local}, ${quoteString(table)}, ${key})`),
    ...WHOLE_TABLES.map((table) =>
      `CREATE OR REPLACE TABLE "${all}".${table} {{on_cluster}} AS "${database}".${table}
ENGINE = Merge(${local}, ${quoteString(`^${table}$`)})`),
    ...migrations.flatMap(splitStatements).filter((sql) => CREATE_VIEW.test(sql)).map((sql) =>
      sql.replace(CREATE_VIEW, (_, name: string) => `CREATE OR REPLACE VIEW "${all}".${name}`))
  ].map(render)
}
