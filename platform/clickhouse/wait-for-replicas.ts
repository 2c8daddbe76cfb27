/** Before a write depends on what a cluster does not have: the replicas that answer have what was stored until now. */
import { MillraceError } from '../../engines/errors.ts'
import { ANSWERING_NODES } from '../../schema/migrate/clickhouse-topology.ts'
import { pause } from '../intervals.ts'
import { classifyClickHouseError } from './clickhouse-errors.ts'
import { type ClickHouse, LOCAL_DATABASE, queryRows, systemTable } from './connect-clickhouse.ts'

export interface WaitForReplicasOptions {
  clickhouse: Pick<ClickHouse, 'query'>
  /** Name of the ClickHouse cluster; empty: one node, for which nobody waits. */
  cluster: string
  /** Tables of which each shard has its own. Default: `events`. */
  tables?: readonly string[]
  /** Default 30,000 ms. */
  timeoutMs?: number
}

interface Replica {
  /** Of a table of a shard in Keeper. */
  path: string
  replica: string
  /** Number of the last entry in the log that the replicas share. */
  newest: number
  /** Number of the first entry that this replica has not read. */
  next: number
  isBehind: boolean
  shards: number
}

const POLL_INTERVAL_MS = 50

/**
 * Waits until the replicas that answer have what any of them confirmed before.
 *
 * A replica that returns, or takes over from one that died, may lack rows that another one confirmed. What it finds is
 * stored; what it does not find may be stored all the same. Each replica that answers therefore has to be seen without
 * an insert of others left to copy, at some moment of the wait, and one of each shard has to answer.
 *
 * @throws {MillraceError} `MILLRACE_REPLICAS_BEHIND`, to be tried again: what a dead replica confirmed and no other has
 *   copied is not known. And when ClickHouse does not answer.
 */
export async function waitForReplicas (options: WaitForReplicasOptions): Promise<void> {
  const { cluster, tables = ['events'], timeoutMs = 30_000 } = options
  if (cluster === '') return
  const deadline = performance.now() + timeoutMs
  const upToDate = new Set<string>()
  let newest: Map<string, number> | undefined
  for (;;) {
    const isLast = performance.now() > deadline
    const replicas = await readReplicas(options, tables).catch((error: unknown) => {
      if (isLast || classifyClickHouseError(error).action !== 'retry') throw error
      return []
    })
    if (replicas.length > 0) newest ??= newestOf(replicas)
    const isWhole = newest !== undefined && newest.size === tables.length * (replicas[0]?.shards ?? 0)
    for (const { path, replica, next, isBehind } of replicas) {
      const last = newest?.get(path) ?? 0
      // An empty log has no entry 0.
      if (!isBehind && (next > last || last === 0)) upToDate.add(`${path} ${replica}`)
    }
    const behind = replicas.filter(({ path, replica }) => !upToDate.has(`${path} ${replica}`))
    if (isWhole && behind.length === 0) return
    if (isLast) throw createBehindError(isWhole ? behind : [])
    await pause(POLL_INTERVAL_MS, NEVER)
  }
}

const NEVER = new AbortController().signal

async function readReplicas (
  { clickhouse, cluster }: WaitForReplicasOptions, tables: readonly string[]
): Promise<Replica[]> {
  return await queryRows<Replica>(clickhouse, `
    SELECT zookeeper_path AS path, replica_name AS replica, toFloat64(log_max_index) AS newest, toFloat64(log_pointer) AS next,
      (is_readonly OR is_session_expired OR (database, table, replica_name) IN (
        SELECT database, table, replica_name FROM system.replication_queue
        WHERE type IN ('GET_PART', 'ATTACH_PART') AND source_replica != replica_name
      )) AS isBehind,
      (SELECT toUInt32(uniqExact(shard_num)) FROM system.clusters WHERE cluster = {cluster: String}) AS shards
    FROM ${systemTable(cluster, 'replicas')} WHERE database = ${LOCAL_DATABASE} AND table IN {tables: Array(String)}
    SETTINGS ${ANSWERING_NODES}`, { cluster, tables })
}

function newestOf (replicas: readonly Replica[]): Map<string, number> {
  const newest = new Map<string, number>()
  for (const { path, newest: last } of replicas) newest.set(path, Math.max(newest.get(path) ?? 0, last))
  return newest
}

function createBehindError (behind: readonly Replica[]): MillraceError {
  const names = [...new Set(behind.map(({ replica }) => replica))].join(', ')
  return new MillraceError('MILLRACE_REPLICAS_BEHIND',
    behind.length > 0 ? `replicas lack what others confirmed: ${names}` : 'no replica of a shard answers', { action: 'retry' })
}
