import path from 'node:path'
import { type ClickHouseClient, ClickHouseLogLevel, type ClickHouseSettings, createClient } from '@clickhouse/client'
import { quoteString } from 'chdb-server/sql-lexer'
import { MillraceError } from '../../engines/errors.ts'
import {
  type ClickHouseTopology, databaseOfAllShards, distributedTables, type DistributedTablesOptions, ONLY_ACTIVE_NODES,
  renderClickHouseSql
} from './clickhouse-topology.ts'
import {
  type AppliedMigration, listObjects, listTables, type Migration, readMigrations, selectPending, splitStatements
} from './read-migrations.ts'
import { ask, refreshEventsWithPerson } from './refresh-events-with-person.ts'

export const CLICKHOUSE_FOLDER = path.join(import.meta.dirname, '..', 'clickhouse')

/**
 * Settings with which a table answers an insert only when its rows are on the disk.
 *
 * - `fsync_after_insert`, `fsync_part_directory`: files of the new part, then its name.
 * - `min_*_to_fsync_after_merge`: 1 is "always". A merged or mutated part takes the place of flushed ones, which are
 *   removed soon after (with chdb's own settings at once), whether or not the kernel has written the new one by then.
 * - `min_compressed_bytes_to_fsync_after_fetch`: the same for a part that a replica copied from another one.
 */
export const FLUSH_SETTINGS: Readonly<Record<string, number>> = {
  fsync_after_insert: 1,
  fsync_part_directory: 1,
  min_rows_to_fsync_after_merge: 1,
  min_compressed_bytes_to_fsync_after_merge: 1,
  min_compressed_bytes_to_fsync_after_fetch: 1
}

/**
 * A killed replica may have a part that Keeper does not know, and that was never acknowledged. It sets the part
 * aside when it starts; by default not when the part has most rows of a small table, which then stays read-only.
 */
const REPLICATED_SETTINGS: Readonly<Record<string, number>> = { replicated_max_ratio_of_wrong_parts: 1 }

/** `ON CLUSTER` waits 180 s by the server's default, which the client would not. */
const CLIENT = {
  request_timeout: 90_000,
  clickhouse_settings: {
    distributed_ddl_task_timeout: '60', distributed_ddl_output_mode: ONLY_ACTIVE_NODES, skip_unavailable_shards: 1,
    handshake_timeout_ms: 1000
  } satisfies ClickHouseSettings,
  log: { level: ClickHouseLogLevel.OFF }
}

const CREATE_STATE = `CREATE TABLE IF NOT EXISTS schema_migrations {{on_cluster}}
(
    name String COMMENT 'File of schema/clickhouse without its ending',
    checksum String COMMENT 'SHA-256 of the file, in hex',
    applied_at DateTime DEFAULT now() COMMENT 'When it was applied'
)
ENGINE = {{replicated}}ReplacingMergeTree({{every_node}}applied_at)
ORDER BY name
COMMENT 'Migrations that this database has'`

const VIEW = /^(?:CREATE MATERIALIZED VIEW IF NOT EXISTS|ALTER TABLE) (\w+_view)\b/m

/**
 * Creates the database when it is missing and applies the pending ClickHouse migrations.
 *
 * ClickHouse has no transactional DDL: each statement of a file is idempotent, and the row of the file is written after
 * the last one, so a process that dies in between repeats statements that change nothing.
 *
 * @param url     `http://user:password@host:port/database`.
 * @param topology  One node or a cluster.
 * @param only  Names of those to apply; absent: all.
 * @param onCreated  Called with the tables and views that some nodes of the cluster lacked.
 * @returns the names of the applied migrations.
 * @throws {MillraceError} `MILLRACE_MIGRATION_TOPOLOGY` for tables of one server on a cluster, and the reverse.
 */
export async function migrateClickHouse (
  url: string, topology: ClickHouseTopology, only?: readonly string[], onCreated?: (names: string[]) => unknown
): Promise<string[]> {
  const { serverUrl, database } = splitDatabase(url)
  const render = (sql: string): string => renderClickHouseSql(sql, topology)

  const server = createClient({ ...CLIENT, url: serverUrl })
  try {
    await server.command({ query: render(`CREATE DATABASE IF NOT EXISTS "${database}" {{on_cluster}}`) })
  } finally {
    await server.close()
  }

  const client = createClient({ ...CLIENT, url: serverUrl, database })
  try {
    await refuseOtherTopology(client, topology)
    await client.command({ query: render(CREATE_STATE) })
    const migrations = await readMigrations(CLICKHOUSE_FOLDER)
    const names = ['schema_migrations', ...listObjects(migrations)]
    const created = topology.cluster === undefined ? [] : await fillNewNodes(client, topology.cluster, names)
    if (created.length > 0) onCreated?.(created)
    // Of all nodes: what another one has just recorded may not be on this one yet.
    const applied = await ask<AppliedMigration>(client, `SELECT DISTINCT name, checksum FROM ${everywhere(topology, 'schema_migrations')}`)
    const pending = selectPending('clickhouse', migrations, applied).filter(({ name }) => only?.includes(name) ?? true)
    for (const migration of pending) {
      for (const sql of splitStatements(migration)) {
        const view = findMaterializedView(sql)
        if (view !== null) await attachLeftOver(client, view, topology)
        await client.command({ query: render(sql) })
        if (view !== null) await reattachView(client, view, topology)
      }
      const { name, checksum } = migration
      const settings = { async_insert: 0 as const }
      await client.insert({ table: 'schema_migrations', values: [{ name, checksum }], format: 'JSONEachRow', clickhouse_settings: settings })
    }
    await flushInserts(client, { migrations, topology })
    const { cluster } = topology
    if (cluster !== undefined) await showAllShards(client, serverUrl, { cluster, database, migrations })
    // Also when nothing was pending: a restore brings columns that no migration made (promoted properties). The view
    // over all shards has just been replaced.
    await refreshEventsWithPerson(client, { topology })
    return pending.map(({ name }) => name)
  } finally {
    await client.close()
  }
}

/** Run by `npm run check:cluster`: the embedded engine knows no clusters. `test/cluster` parses what it runs. */
async function showAllShards (local: ClickHouseClient, url: string, options: DistributedTablesOptions): Promise<void> {
  const [createDatabase = '', ...rest] = distributedTables(options)
  await local.command({ query: createDatabase })
  const client = createClient({ ...CLIENT, url, database: databaseOfAllShards(options.database) })
  try {
    for (const query of rest) await client.command({ query })
  } finally {
    await client.close()
  }
}

function splitDatabase (text: string): { serverUrl: string, database: string } {
  const url = new URL(text)
  const database = url.pathname.slice(1) || 'millrace'
  url.pathname = '/'
  return { serverUrl: url.href, database }
}

/** Name of the materialized view that a statement creates or alters; null when it does neither. */
export function findMaterializedView (sql: string): string | null {
  return VIEW.exec(sql)?.[1] ?? null
}

/** No migration makes a table replicated, and a node that is not known as one would get tables of its own. */
async function refuseOtherTopology (client: ClickHouseClient, { cluster }: ClickHouseTopology): Promise<void> {
  const [other] = await ask<{ why: string }>(client, cluster === undefined
    ? "SELECT 'of a cluster: set MILLRACE_CLICKHOUSE_CLUSTER' AS why FROM system.databases WHERE name = concat(currentDatabase(), '_all')"
    : `SELECT 'of one server: name another database, and bring the events there by "millrace move clickhouse"' AS why FROM system.tables
      WHERE database = currentDatabase() AND name = 'events' AND engine NOT LIKE 'Replicated%'`)
  if (other !== undefined) throw new MillraceError('MILLRACE_MIGRATION_TOPOLOGY', `the tables of this ClickHouse database are ${other.why}`)
}

/**
 * Attaches a materialized view again that was just created or altered, as a restart of the server would.
 *
 * A view passes on a token of its own for each insert. ClickHouse (26.7) makes it from other names before the first
 * restart than after it: an insert that was stored by the view before a crash, and is repeated after it, would be
 * counted twice. Only done while no node has an event: the view misses rows inserted meanwhile.
 */
async function reattachView (client: ClickHouseClient, view: string, topology: ClickHouseTopology): Promise<void> {
  // A shard that does not answer may have events.
  const events = await ask(client, `SELECT 1 FROM ${everywhere(topology, 'events')} LIMIT 1`, {}, { skip_unavailable_shards: 0 })
  if (events.length > 0) return
  await client.command({ query: renderClickHouseSql(`DETACH TABLE ${view} {{on_cluster}} SYNC`, topology) })
  await client.command({ query: renderClickHouseSql(`ATTACH TABLE IF NOT EXISTS ${view} {{on_cluster}}`, topology) })
}

/** Attaches a view that a killed migration left detached; a server that starts does so by itself. */
async function attachLeftOver (client: ClickHouseClient, view: string, topology: ClickHouseTopology): Promise<void> {
  const detached = await ask(client, `SELECT 1 FROM ${everywhere(topology, 'detached_tables', 'system')}
    WHERE database = currentDatabase() AND table = {view: String}`, { view })
  if (detached.length === 0) return
  await client.command({ query: renderClickHouseSql(`ATTACH TABLE IF NOT EXISTS ${view} {{on_cluster}}`, topology) })
}

/** A table with the rows of every node: of a cluster, the node that answers may be empty, or behind. */
function everywhere ({ cluster }: ClickHouseTopology, table: string, database = 'currentDatabase()'): string {
  if (cluster !== undefined) return `clusterAllReplicas(${quoteString(cluster)}, ${database}, ${table})`
  return database === 'system' ? `system.${table}` : table
}

/**
 * Makes every table of the migrations flush inserted rows before the insert is answered: JetStream and the outbox
 * of persons forget what ClickHouse confirmed.
 *
 * Checked after each run of the migrations, so that a later table and one that was restored from an older backup get
 * it too. A table that names `fsync_after_insert` itself is left as it is: an operator whose replicas have power
 * supplies of their own may have turned it off.
 *
 * @returns the tables that were changed.
 */
export async function flushInserts (
  client: ClickHouseClient, { migrations, topology }: { migrations: readonly Migration[], topology: ClickHouseTopology }
): Promise<string[]> {
  const names = ['schema_migrations', ...listTables(migrations)]
  const found = await ask<{ name: string }>(client, `SELECT DISTINCT name FROM ${everywhere(topology, 'tables', 'system')}
    WHERE database = currentDatabase() AND name IN {names: Array(String)} AND engine LIKE '%MergeTree'
      AND position(engine_full, 'fsync_after_insert') = 0
    ORDER BY name`, { names })
  const tables = found.map(({ name }) => name)
  const all = { ...FLUSH_SETTINGS, ...topology.cluster === undefined ? {} : REPLICATED_SETTINGS }
  const settings = Object.entries(all).map(([name, value]) => `${name} = ${value}`).join(', ')
  for (const table of tables) {
    await client.command({
      query: renderClickHouseSql(`ALTER TABLE ${table} {{on_cluster}} MODIFY SETTING ${settings}`, topology)
    })
  }
  return tables
}

/** Tables first, because views read them; then views that store, then those that only read. */
const ORDER = ['MaterializedView', 'View']

const CREATE = /^CREATE (TABLE|MATERIALIZED VIEW|VIEW) (\S+)/

/**
 * Creates what some nodes of a cluster have and others lack, as on a node that was added: the tables as they are now,
 * promoted columns included, whichever node the client is connected to. Their paths in Keeper follow from the macros of
 * each node, so a new replica joins its shard and copies its rows.
 *
 * A node that does not answer is left to the next run, and what an operator made is left alone.
 *
 * @param names  Of the tables and views that are ours.
 * @returns names of what was created.
 */
async function fillNewNodes (client: ClickHouseClient, cluster: string, names: readonly string[]): Promise<string[]> {
  const nodes = `clusterAllReplicas(${quoteString(cluster)}`
  const missing = await ask<{ name: string, statement: string }>(client, `
    SELECT name, any(create_table_query) AS statement FROM ${nodes}, system.tables)
    WHERE database = currentDatabase() AND name IN {names: Array(String)}
    GROUP BY name, engine HAVING count() < (SELECT count() FROM ${nodes}, system.one))
    ORDER BY indexOf(${`[${ORDER.map(quoteString).join()}]`}, engine), name`, { names })
  for (const { statement } of missing) await client.command({ query: createEverywhere(statement, cluster) })
  return missing.map(({ name }) => name)
}

/** The statement by which a server shows a table, for all nodes that lack it. */
export function createEverywhere (statement: string, cluster: string): string {
  return statement.replace(CREATE, (_, kind: string, name: string) =>
    `CREATE ${kind} IF NOT EXISTS ${name} ON CLUSTER ${quoteString(cluster)}`)
}
