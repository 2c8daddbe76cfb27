import { onCluster, onEachShard, systemTable } from '../clickhouse/clickhouse-cluster.ts'
import { type ClickHouse } from '../clickhouse/connect-clickhouse.ts'
import { type NatsConnection } from '../nats/connect-nats.ts'
import { type Sql } from '../postgres/connect-postgres.ts'
import { purgeDeadLetters } from '../dead-letters/purge-dead-letters.ts'
import { groupByCutoff, listRetention, type RetentionGroup, type RetentionRule } from './retention-policy.ts'

/** Any number, the same in every version: the advisory lock that lets one process at a time do it. */
const RETENTION_LOCK = 4_725_373

const DAY_MS = 86_400_000

export interface RetentionDeps {
  sql: Sql
  clickhouse: ClickHouse
  connection: NatsConnection
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster?: string
  /** Epoch milliseconds. */
  now: () => number
}

export interface RetentionOutcome {
  /** Another process is at it; nothing was done. */
  skipped: boolean
  /** Months of which nobody keeps anything: dropped as whole partitions. */
  partitions: number
  /** Events beyond those, ordered to be deleted. */
  events: number
  deadLetters: number
}

/**
 * Removes what is older than the rules say: whole months by dropping their partitions, which costs nothing; the rest
 * by lightweight deletes, which mark rows and leave the rewriting to later merges. Volumes by day and definitions stay.
 *
 * Safe to repeat at any time. Deletes go on in ClickHouse after this returns.
 */
export async function applyRetention (deps: RetentionDeps): Promise<RetentionOutcome> {
  return await deps.sql.begin(async (transaction) => {
    const [row] = await transaction<{ locked: boolean }[]>`SELECT pg_try_advisory_xact_lock(${RETENTION_LOCK}) AS locked`
    if (row?.locked !== true) return { skipped: true, partitions: 0, events: 0, deadLetters: 0 }
    const rules = await listRetention(transaction)
    if (rules.length === 0) return { skipped: false, partitions: 0, events: 0, deadLetters: 0 }
    const ids = (await transaction<{ id: number }[]>`SELECT id FROM projects ORDER BY id`).map(({ id }) => id)
    const groups = groupByCutoff(rules, ids, deps.now())
    const partitions = await dropPartitions(deps, groups)
    let events = 0
    for (const group of groups) events += await deleteEvents(deps, group)
    return { skipped: false, partitions, events, deadLetters: await purge(deps, rules) }
  })
}

/** A month goes as a whole when every project's events of it go. */
async function dropPartitions ({ clickhouse, cluster = '' }: RetentionDeps, groups: readonly RetentionGroup[]): Promise<number> {
  const days = groups.map(({ before }) => before)
  if (days.length === 0 || days.includes(null)) return 0
  const earliest = (days as string[]).sort()[0]!
  const found = await ask<{ partition: string }>(clickhouse, `
    SELECT DISTINCT partition FROM ${systemTable(cluster, 'parts')}
    WHERE active AND database = currentDatabase() AND table = 'events'
      AND toDate(addMonths(toDate(concat(partition, '01')), 1)) <= {earliest: Date}`, { earliest })
  for (const { partition } of found) {
    await clickhouse.command({ query: `ALTER TABLE events ${onCluster(cluster)} DROP PARTITION ${Number(partition)}` })
  }
  return found.length
}

async function deleteEvents ({ clickhouse, cluster = '' }: RetentionDeps, { projectIds, before }: RetentionGroup): Promise<number> {
  if (before === null) return 0
  // By the key of the table, so that only the granules in question are read.
  const where = 'project_id IN {ids: Array(UInt32)} AND toDate(timestamp) < {before: Date}'
  const params = { ids: projectIds, before }
  const [row] = await ask<{ count: string }>(clickhouse, `
    SELECT count() AS count FROM ${onEachShard(cluster, 'events')} WHERE ${where} SETTINGS final = 0`, params)
  const count = Number(row?.count)
  // A delete of nothing would still look at every part.
  if (count > 0) {
    await clickhouse.command({
      query: `DELETE FROM events ${onCluster(cluster)} WHERE ${where}`,
      query_params: params,
      clickhouse_settings: { lightweight_deletes_sync: '0' }
    })
  }
  return count
}

async function purge ({ connection, now }: RetentionDeps, rules: readonly RetentionRule[]): Promise<number> {
  const days = rules.find(({ what }) => what === 'dead_letters')?.days ?? null
  if (days === null) return 0
  return (await purgeDeadLetters(connection, { to: new Date(now() - days * DAY_MS) })).purged
}

async function ask<T> (clickhouse: ClickHouse, query: string, params: Record<string, unknown>): Promise<T[]> {
  return await (await clickhouse.query({ query, query_params: params, format: 'JSONEachRow' })).json<T>()
}
