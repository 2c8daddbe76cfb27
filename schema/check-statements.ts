/** The SQL of `millrace check clickhouse`. Texts only, of which system tables of all nodes are parameters. */

import { ANSWERING_NODES } from './migrate/clickhouse-topology.ts'

/** Every node by its place in the cluster's definition. */
export const LIST_NODES = `SELECT shard_num AS shard, concat(host_name, ':', toString(port)) AS node
  FROM system.clusters WHERE cluster = {cluster: String} ORDER BY shard_num, replica_num`

/** What every node is asked about itself: columns of a table of `system`. */
export interface NodeQuestion { table: string, columns: string, rest?: string }

export const NODE_VERSION: NodeQuestion = { table: 'one', columns: 'version() AS version, toFloat64(toUnixTimestamp64Milli(now64(3))) AS now' }
export const NODE_DEFINITION: NodeQuestion = {
  table: 'clusters', rest: 'WHERE cluster = {cluster: String} GROUP BY place', columns: `toUInt32(min(internal_replication)) AS internal,
    arrayStringConcat(arrayMap(each -> each.3, arraySort(groupArray((shard_num, replica_num, concat(toString(shard_num), '/', host_name, ':', toString(port)))))), ' ') AS nodes`
}
export const NODE_MACROS: NodeQuestion = { table: 'macros', columns: 'macro, substitution' }
export const NODE_REPLICAS: NodeQuestion = {
  table: 'replicas', rest: 'WHERE database = currentDatabase()', columns: `table AS name, zookeeper_path AS path, toUInt32(total_replicas) AS all, toUInt32(active_replicas) AS active,
    toUInt32(absolute_delay) AS delay, is_readonly AS frozen`
}
/** Mean wait for an answer of Keeper. */
export const NODE_KEEPER: NodeQuestion = {
  table: 'events', rest: 'GROUP BY place', columns: `toFloat64(sumIf(value, event = 'ZooKeeperWaitMicroseconds'))
    / greatest(sumIf(value, event = 'ZooKeeperTransactions'), 1) / 1000 AS ms`
}

/** `place` counts from 1 as the definition does; nodes that do not answer have no row. */
export const askEachNode = ({ columns, rest = '' }: NodeQuestion, table: string): string =>
  `SELECT shardNum() AS place, ${columns} FROM ${table} ${rest} SETTINGS ${ANSWERING_NODES}`

/** Tables of both databases, and the nodes that have them. */
export const listTablesOfNodes = (tables: string): string => `SELECT concat(database, '.', name) AS name, groupUniqArray(shardNum()) AS places
  FROM ${tables} WHERE database IN (currentDatabase(), concat(currentDatabase(), '_all')) AND NOT startsWith(name, '.')
  GROUP BY name ORDER BY name SETTINGS ${ANSWERING_NODES}`

/** Tables that answer an insert before its rows are on the disk. */
export const listUnflushed = (tables: string): string => `SELECT DISTINCT name FROM ${tables}
  WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND position(engine_full, 'fsync_after_insert = 1') = 0
  ORDER BY name SETTINGS ${ANSWERING_NODES}`

export const COUNT_UNREPLICATED = `SELECT toUInt32(count()) AS n FROM system.tables
  WHERE database = currentDatabase() AND name = 'events' AND engine NOT LIKE 'Replicated%'`

export const READ_QUORUM = `SELECT any(value) AS quorum FROM system.settings_profile_elements
  WHERE setting_name = 'insert_quorum' AND (user_name = 'millrace_pipeline' OR profile_name = 'millrace_quorum')`

/** A table in a database of its own, into which one insert is repeated. */
export function probeStatements (database: string, onCluster: string) {
  const [engine, window] = onCluster === ''
    ? ['MergeTree', 'non_replicated_deduplication_window']
    : [`ReplicatedMergeTree('/clickhouse/tables/all/${database}/probe', '{shard}-{replica}')`, 'replicated_deduplication_window']
  return {
    createDatabase: `CREATE DATABASE ${database} ${onCluster}`,
    createTable: `CREATE TABLE ${database}.probe ${onCluster} (id UInt64) ENGINE = ${engine} ORDER BY id SETTINGS ${window} = 100`,
    insert: `INSERT INTO ${database}.probe SELECT number FROM numbers(100)`,
    count: `SELECT toUInt32(count()) AS rows FROM ${database}.probe`,
    drop: `DROP DATABASE IF EXISTS ${database} ${onCluster} SYNC`
  }
}

/** What every login may ask; `all` is the prefix of the tables of all shards. */
export const compareWithItself = (all: string): string =>
  `SELECT count() FROM ${all}events WHERE distinct_id IN (SELECT distinct_id FROM ${all}events WHERE event = 'checked')`
export const countRowsOf = (table: string): string => `SELECT count() FROM ${table}`
export const checkGrant = (right: string): string => `CHECK GRANT ${right}`
