/** Measures how many events of the running month projects have sent, for their quotas. */
import { type ClickHouse, onEachShard, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { type MeasuredUsage, monthOf, nextMonthOf } from '../../schema/project-quotas.ts'
import { LEDGER_TABLE, ledgerTotals } from '../../schema/wire/ledger.ts'

/** Maximum delay from storing events to the books in ClickHouse, ms. */
const BOOKS_BEHIND_MS = 10_000

/**
 * The days of the month that are over are read again after so long, in milliseconds: spools and clients without a
 * network bring late events. The running day and the one before are read each time.
 */
const CLOSED_DAYS_MS = 600_000

const DAY_MS = 86_400_000

/** Longest reading of the books, in seconds. */
const MAX_SECONDS = 30

export interface MeasureUsageOptions {
  sql: Sql
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
  /** Epoch milliseconds. */
  now: () => number
}

/** Measures once; returns the used share of each quota of the month, by project. */
export type MeasureUsage = () => Promise<ReadonlyMap<number, number>>

/**
 * Sums up the books of the running month of the projects with a quota of the month, and stores that for ingest. The
 * closed days of a month are remembered between measurements, so that one reads two days of books.
 *
 * @throws when ClickHouse or Postgres is unavailable: what was measured last stays, and ingest counts on from it.
 */
export function createMeasureUsage ({ sql, now, ...books }: MeasureUsageOptions): MeasureUsage {
  let closed = { projects: '', end: 0, readAt: -Infinity, sums: new Map<number, number>() }

  return async function measureUsage () {
    const quotas = await sql<{ project: number, eventsPerMonth: number }[]>`
      SELECT project_id AS project, events_per_month AS "eventsPerMonth" FROM project_quotas
      WHERE events_per_month IS NOT NULL ORDER BY project_id`
    if (quotas.length === 0) return new Map()
    const projects = quotas.map(({ project }) => project)
    const at = now()
    const monthBegin = monthOf(at)
    const end = Math.max(monthBegin, at - at % DAY_MS - DAY_MS)
    await readClosedDays(projects, { monthBegin, end, at })
    // The clock of ingest may be ahead.
    const open = await sumUsage(books, projects, { from: end, to: nextMonthOf(at) })
    const usage = new Map<number, MeasuredUsage>(projects.map((project) => [project, {
      monthBegin,
      events: (closed.sums.get(project) ?? 0) + (open.get(project) ?? 0),
      countedThrough: at - BOOKS_BEHIND_MS
    }]))
    await writeUsage(sql, usage)
    return new Map(quotas.map(({ project, eventsPerMonth }) =>
      [project, (usage.get(project)?.events ?? 0) / eventsPerMonth]))
  }

  async function readClosedDays (
    projects: readonly number[], { monthBegin, end, at }: { monthBegin: number, end: number, at: number }
  ): Promise<void> {
    const names = projects.join()
    const age = at - closed.readAt
    if (closed.projects === names && closed.end === end && age >= 0 && age < CLOSED_DAYS_MS) return
    const sums = end === monthBegin
      ? new Map<number, number>()
      : await sumUsage(books, projects, { from: monthBegin, to: end })
    closed = { projects: names, end, readAt: at, sums }
  }
}

/**
 * Events of a span of receipt, by project; what the books do not have yet (some ten seconds) is not in it. Every
 * project asked for is in the map.
 *
 * @param span  Epoch milliseconds, whole minutes; the end is exclusive.
 */
async function sumUsage (
  { clickhouse, cluster }: Pick<MeasureUsageOptions, 'clickhouse' | 'cluster'>, projects: readonly number[],
  span: { from: number, to: number }
): Promise<Map<number, number>> {
  const rows = await queryRows<{ project: number, events: string }>(clickhouse, `
    SELECT project_id AS project, greatest(sum(toInt64(a + r) - toInt64(d + l)), 0) AS events
    FROM (${ledgerTotals(onEachShard(cluster, LEDGER_TABLE))})
    GROUP BY project_id SETTINGS final = 0, max_execution_time = ${MAX_SECONDS}`,
  { projects, from: span.from / 1000, to: span.to / 1000 })
  const sums = new Map(projects.map((project) => [project, 0]))
  for (const { project, events } of rows) sums.set(Number(project), Number(events))
  return sums
}

/** Stores what was measured. A project that was deleted meanwhile is left out. */
async function writeUsage (sql: Sql, usage: ReadonlyMap<number, MeasuredUsage>): Promise<void> {
  const rows = [...usage].map(([projectId, { monthBegin, events, countedThrough }]) => ({
    project: projectId,
    month: new Date(monthBegin).toISOString().slice(0, 10),
    events,
    through: new Date(countedThrough).toISOString()
  }))
  await sql`
    INSERT INTO project_usage (project_id, month, events, counted_through)
    SELECT n.project, n.month, n.events, n.through
    FROM jsonb_to_recordset(${sql.json(rows)}) AS n (project integer, month date, events bigint, through timestamptz)
    JOIN projects AS p ON p.id = n.project
    ON CONFLICT (project_id) DO UPDATE
      SET month = excluded.month, events = excluded.events, counted_through = excluded.counted_through`
}

/** Returns a check that measures in the process that checks, and shows the result as a metric. */
export function createUsageCheck ({ isChecker, metrics, ...options }: MeasureUsageOptions & {
  isChecker: () => boolean, metrics: Metrics
}): () => Promise<void> {
  const measure = createMeasureUsage(options)
  const used = metrics.gauge('quota_month_used_ratio',
    'Used share of the monthly quota by project; in the measuring process.',
    ['project'])
  return async function checkUsage () {
    const ratios = isChecker() ? await measure() : new Map<number, number>()
    used.reset()
    for (const [project, ratio] of ratios) used.set({ project: String(project) }, ratio)
  }
}
