import { quoteString } from '../../schema/clickhouse-sql.ts'

/** `ON CLUSTER ...` of a statement that changes tables; nothing on one node. */
export function onCluster (cluster: string): string {
  return cluster === '' ? '' : `ON CLUSTER ${quoteString(cluster)}`
}

/** A system table of all nodes. */
export function systemTable (cluster: string, table: string): string {
  return cluster === '' ? `system.${table}` : `clusterAllReplicas(${quoteString(cluster)}, system.${table})`
}

/** A table of ours with the rows of all shards, each once. */
export function onEachShard (cluster: string, table: string): string {
  return cluster === '' ? table : `cluster(${quoteString(cluster)}, currentDatabase(), ${table})`
}

/** A table of ours with the rows that any replica of any shard still has: for making sure that rows are gone. */
export function onEachReplica (cluster: string, table: string): string {
  return cluster === '' ? table : `clusterAllReplicas(${quoteString(cluster)}, currentDatabase(), ${table})`
}
