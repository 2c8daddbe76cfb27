import { createHash } from 'node:crypto'
import { type ClickHouse, onCluster, onEachShard, queryRows, systemTable } from './clickhouse/connect-clickhouse.ts'
import { purgeDeadLetters } from './dead-letters/replay-and-purge.ts'
import { pause } from './intervals.ts'
import {
  announceRemoval, beginRemoval, completeRemoval, type EventRemoval, listRetentionRemovals, startRemoval
} from './ledger/event-removals.ts'
import { MillraceError } from '../engines/errors.ts'
import type { NatsConnection } from './nats/connect-nats.ts'
import type { Sql, TransactionSql } from './postgres/connect-postgres.ts'

/** What is kept: events, of the deployment or of a project, and dead letters. */
export type RetentionSubject = 'events' | 'dead_letters'

interface RetentionRule {
  what: RetentionSubject
  /** null: the whole deployment. */
  projectId: number | null
  /** Full days; null: indefinitely. */
  days: number | null
}

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

/** Projects whose events end at the same day. */
interface RetentionGroup {
  projectIds: number[]
  /** Events of an earlier day go: `YYYY-MM-DD`. null: none goes. */
  before: string | null
}

/** Any number, the same in every version: the advisory lock that lets one process at a time do it. */
const RETENTION_LOCK = 4_725_373

const DAY_MS = 86_400_000

/** All rules; what has none is kept indefinitely. */
export async function listRetention (sql: Sql | TransactionSql): Promise<RetentionRule[]> {
  return await sql<RetentionRule[]>`
    SELECT what, project_id AS "projectId", days FROM retention ORDER BY what DESC, project_id NULLS FIRST`
}

/**
 * Sets or replaces a rule. It takes effect with the next round of a pipeline process, within an hour.
 *
 * @throws {MillraceError} `MILLRACE_PROJECT_NOT_FOUND`.
 */
export async function setRetention (sql: Sql, { what, projectId, days }: RetentionRule): Promise<void> {
  if (projectId !== null && (await sql`SELECT 1 FROM projects WHERE id = ${projectId}`).length === 0) {
    throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${projectId}`)
  }
  await sql`
    INSERT INTO retention (what, project_id, days) VALUES (${what}, ${projectId}, ${days})
    ON CONFLICT (what, project_id) DO UPDATE SET days = excluded.days, updated_at = now()`
}

/** Removes a rule: a project follows the deployment again. Returns whether there was one. */
export async function clearRetention (sql: Sql, { what, projectId }: Omit<RetentionRule, 'days'>): Promise<boolean> {
  const removed = await sql`DELETE FROM retention WHERE what = ${what} AND project_id IS NOT DISTINCT FROM ${projectId}`
  return removed.count > 0
}

/**
 * Removes what is older than the rules say: whole months by dropping their partitions, which costs nothing; the rest
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

/**
 * Groups the projects by the day before which their events go. Today counts as the first day kept, so `days` full days
 * before it are kept as well.
 *
 * @param now  Epoch milliseconds.
 */
export function groupByCutoff (
  rules: readonly RetentionRule[], projectIds: readonly number[], now: number
): RetentionGroup[] {
  const ofEvents = rules.filter(({ what }) => what === 'events')
  const common = ofEvents.find(({ projectId }) => projectId === null)?.days ?? null
  const groups = new Map<number | null, number[]>()
  for (const id of projectIds) {
    const own = ofEvents.find(({ projectId }) => projectId === id)
    const days = own === undefined ? common : own.days
    groups.set(days, [...groups.get(days) ?? [], id])
  }
  return [...groups].map(([days, ids]) => ({
    projectIds: ids, before: days === null ? null : new Date(now - days * DAY_MS).toISOString().slice(0, 10)
  }))
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
  const removal = await beginRemoval(deps, `retention:${month}`, { kind: 'month', params: { month } })
  if (removal === null) return false
  const announced = await announceRemoval(deps, removal)
  const [row] = await queryRows<{ count: string }>(clickhouse, `
    SELECT count() AS count FROM ${onEachShard(cluster, 'events')} WHERE toYYYYMM(timestamp) = {month: UInt32}
    SETTINGS final = 0`, { month })
  const isWhole = Number(row?.count) === announced
  if (isWhole) await clickhouse.command({ query: `ALTER TABLE events ${onCluster(cluster)} DROP PARTITION ${month}` })
  // Dropped with it would be events that the ledger has not counted.
  else await startRemoval(deps, removal, { marks: true })
  return await waitUntilComplete(deps, removal) && isWhole
}

async function deleteEvents (deps: RetentionDeps, { projectIds: ids, before }: RetentionGroup): Promise<number> {
  if (before === null) return 0
  const { clickhouse, cluster = '' } = deps
  const [row] = await queryRows<{ count: string }>(clickhouse, `
    SELECT count() AS count FROM ${onEachShard(cluster, 'events')}
    WHERE project_id IN {ids: Array(UInt32)} AND toDate(timestamp) < {before: Date} SETTINGS final = 0`, { ids, before })
  // A delete of nothing would still read every part.
  if (Number(row?.count) === 0) return 0
  const group = createHash('sha256').update(ids.join()).digest('hex').slice(0, 16)
  const removal = await beginRemoval(deps, `retention:${before}:${group}`, { kind: 'days', params: { ids, before } })
  if (removal === null) return 0
  const announced = await announceRemoval(deps, removal)
  if (announced > 0) await startRemoval(deps, removal, { marks: true })
  await waitUntilComplete(deps, removal)
  return announced
}

/** Longest wait for ClickHouse to delete what it was told to, in milliseconds; the next round waits again. */
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
