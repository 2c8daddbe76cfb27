import { createHash } from 'node:crypto'
import { type ClickHouse, onCluster, queryRows, systemTable } from '../platform/clickhouse/connect-clickhouse.ts'
import { purgeDeadLetters } from '../platform/dead-letters/replay-and-purge.ts'
import { pause } from '../platform/intervals.ts'
import type { NatsConnection } from '../platform/nats/connect-nats.ts'
import {
  allOf, announceRemoval, beginRemoval, completeRemoval, countRemaining, type EventRemoval, listRetentionRemovals,
  type RemovedEvents, startRemoval
} from './persons/deletion/event-removals.ts'
import type { Sql } from '../platform/postgres/connect-postgres.ts'
import { listRetention } from '../platform/retention-rules.ts'
import { groupByCutoff, type RetentionGroup, type RetentionRule } from '../schema/retention.ts'

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
  /** Another process applies retention at the moment, or events of a round before are still being deleted. */
  skipped: boolean
  /** Months of which nobody keeps anything: dropped as whole partitions. */
  partitions: number
  /** Events beyond those, ordered to be deleted. */
  events: number
  deadLetters: number
}

/** Any number, the same in every version: the advisory lock that lets one process at a time do it. */
const RETENTION_LOCK = 4_725_373

const DAY_MS = 86_400_000

/**
 * Removes data older than the rules allow: whole months by dropping their partitions, which costs nothing; the rest
 * by lightweight deletes, which mark rows and leave the rewriting to later merges. Volumes by day and definitions stay.
 *
 * Whatever is removed is counted in the ledger first. Safe to repeat at any time. Deletes may go on in ClickHouse after
 * this returns; the next round completes them.
 */
export async function applyRetention (deps: RetentionDeps): Promise<RetentionOutcome> {
  return await deps.sql.begin(async (transaction) => {
    const [row] = await transaction<{ locked: boolean }[]>`SELECT pg_try_advisory_xact_lock(${RETENTION_LOCK}) AS locked`
    if (row?.locked !== true) return { skipped: true, partitions: 0, events: 0, deadLetters: 0 }
    const rules = await listRetention(transaction)
    if (rules.length === 0) return { skipped: false, partitions: 0, events: 0, deadLetters: 0 }
    for (const removal of await listRetentionRemovals(deps.sql)) {
      await startRemoval(deps, removal, { marks: true })
      if (!await waitUntilComplete(deps, removal)) return { skipped: true, partitions: 0, events: 0, deadLetters: 0 }
    }
    const ids = (await transaction<{ id: number }[]>`SELECT id FROM projects ORDER BY id`).map(({ id }) => id)
    const groups = groupByCutoff(rules, ids, deps.now())
    const partitions = await dropPartitions(deps, groups)
    let events = 0
    for (const group of groups) events += await deleteEvents(deps, group)
    return { skipped: false, partitions, events, deadLetters: await purge(deps, rules) }
  })
}

/** A month goes as a whole when every project's events of it go. */
async function dropPartitions (deps: RetentionDeps, groups: readonly RetentionGroup[]): Promise<number> {
  const { clickhouse, cluster = '' } = deps
  const days = groups.map(({ before }) => before)
  if (days.length === 0 || days.includes(null)) return 0
  const earliest = (days as string[]).sort()[0]!
  const found = await queryRows<{ partition: string }>(clickhouse, `
    SELECT DISTINCT partition FROM ${systemTable(cluster, 'parts')}
    WHERE active AND database = currentDatabase() AND table = 'events'
      AND toDate(addMonths(toDate(concat(partition, '01')), 1)) <= {earliest: Date}`, { earliest })
  let dropped = 0
  for (const { partition } of found) if (await dropMonth(deps, Number(partition))) dropped++
  return dropped
}

/** @returns false when events of the month are being inserted at the moment: the next round drops it. */
async function dropMonth (deps: RetentionDeps, month: number): Promise<boolean> {
  const { clickhouse, cluster = '' } = deps
  const events: RemovedEvents = { kind: 'month', params: { month } }
  const removal = await beginRemoval(deps, `retention:${month}`, events)
  if (removal === null) return false
  const announced = await announceRemoval(deps, removal)
  const isWhole = await countRemaining(deps, allOf(events)) === announced
  // Dropped with it would be events that the ledger has not counted.
  if (!isWhole) await startRemoval(deps, removal, { marks: true })
  // The mutation removes nothing: it tells the pipelines that events are gone (RemovalWatch). Should it fail, the next
  // round makes one.
  for (const change of isWhole ? [`DROP PARTITION ${month}`, `DELETE IN PARTITION ${month} WHERE false`] : []) {
    await clickhouse.command({ query: `ALTER TABLE events ${onCluster(cluster)} ${change}` })
  }
  return await waitUntilComplete(deps, removal) && isWhole
}

async function deleteEvents (deps: RetentionDeps, { projectIds: ids, before }: RetentionGroup): Promise<number> {
  if (before === null) return 0
  const events: RemovedEvents = { kind: 'days', params: { ids, before } }
  // A delete of nothing would still read every part.
  if (await countRemaining(deps, allOf(events)) === 0) return 0
  const group = createHash('sha256').update(ids.join()).digest('hex').slice(0, 16)
  const removal = await beginRemoval(deps, `retention:${before}:${group}`, events)
  if (removal === null) return 0
  const announced = await announceRemoval(deps, removal)
  if (announced > 0) await startRemoval(deps, removal, { marks: true })
  await waitUntilComplete(deps, removal)
  return announced
}

/** Maximum wait for ClickHouse to finish deletions, ms; the next round waits again. */
const COMPLETE_MS = 60_000
const POLL_MS = 200

async function waitUntilComplete (deps: RetentionDeps, removal: EventRemoval): Promise<boolean> {
  const deadline = performance.now() + COMPLETE_MS
  while (!await completeRemoval(deps, removal)) {
    if (performance.now() > deadline) return false
    await pause(POLL_MS, new AbortController().signal)
  }
  return true
}

async function purge ({ connection, now }: RetentionDeps, rules: readonly RetentionRule[]): Promise<number> {
  const days = rules.find(({ what }) => what === 'dead_letters')?.days ?? null
  if (days === null) return 0
  return (await purgeDeadLetters(connection, { to: new Date(now() - days * DAY_MS) })).purged
}
