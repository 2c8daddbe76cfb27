/** Where inserts go: a token is known to the tables that took the insert, and names the same rows in the same split. */
import { type ClickHouse, LOCAL_DATABASE, queryRows, systemTable } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { pause } from '../../../platform/intervals.ts'
import { ANSWERING_NODES } from '../../../schema/migrate/clickhouse-topology.ts'
import type { InsertTarget } from '../../stream/partition-records.ts'

/** Reads where inserts go now. @throws when ClickHouse does not answer. */
export type ReadTarget = () => Promise<InsertTarget>

/** @param cluster  Name of the cluster; empty: one node. */
export function createReadTarget (clickhouse: ClickHouse, cluster: string): ReadTarget {
  const split = cluster === ''
    ? "''"
    : `(SELECT hex(sipHash128(groupArray(node))) FROM (
        SELECT (shard_num, shard_weight, host_name, port) AS node FROM system.clusters WHERE cluster = {cluster: String}
        ORDER BY shard_num, replica_num))`
  return async () => {
    const [target] = await queryRows<InsertTarget>(clickhouse, `
      SELECT ${split} AS split, arraySort(groupUniqArray(toString(uuid))) AS tables FROM ${systemTable(cluster, 'tables')}
      WHERE database = ${LOCAL_DATABASE} AND name = 'events' SETTINGS ${ANSWERING_NODES}`, { cluster })
    return target ?? { split: '', tables: [] }
  }
}

/**
 * Whether an insert into one target cannot be repeated in the other under its token: its rows would go to other shards,
 * or to tables that do not know it. Nodes that do not answer at one of the times change nothing.
 */
export function isAnotherTarget (one: InsertTarget, other: InsertTarget): boolean {
  const areKnown = one.tables.length > 0 && other.tables.length > 0
  return one.split !== other.split || (areKnown && !one.tables.some((table) => other.tables.includes(table)))
}

/** Whether a node that answers still runs an insert of this token. @throws when ClickHouse does not answer. */
export type IsInserting = (token: string) => Promise<boolean>

export const createIsInserting = (clickhouse: ClickHouse, cluster: string): IsInserting => async (token) =>
  (await queryRows(clickhouse, `SELECT 1 FROM ${systemTable(cluster, 'processes')}
    WHERE query_kind = 'Insert' AND Settings['insert_deduplication_token'] = {token: String} LIMIT 1
    SETTINGS ${ANSWERING_NODES}`, { token })).length > 0

/** Interval of asking whether an insert still runs, in milliseconds. */
const POLL_MS = 500

/** Waits while ClickHouse works on an insert whose process is gone: its rows may be stored at any moment. */
export async function waitForInsert (token: string, isInserting: IsInserting, stop: AbortSignal): Promise<void> {
  while (!stop.aborted && await isInserting(token)) await pause(POLL_MS, stop)
}
