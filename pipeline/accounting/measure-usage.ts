/** Measures how many events of the running month projects have sent, for their quotas. */
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { type MeasuredUsage, monthOf, nextMonthOf, writeUsage } from '../../platform/quotas/measured-usage.ts'
import { readQuotas } from '../../platform/quotas/quota-store.ts'
import { dayOf, sumUsage } from '../../platform/quotas/usage.ts'

/** Maximum delay from storing events to the books in ClickHouse, ms. */
const BOOKS_BEHIND_MS = 10_000

/**
 * The days of the month that are over are read again after so long, in milliseconds: spools and clients without a
 * network bring late events. The running day and the one before are read each time.
 */
const CLOSED_DAYS_MS = 600_000

const DAY_MS = 86_400_000

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
    const quotas = [...await readQuotas(sql)].filter(([, { eventsPerMonth }]) => eventsPerMonth !== null)
    if (quotas.length === 0) return new Map()
    const projects = quotas.map(([project]) => project).sort((a, b) => a - b)
    const at = now()
    const monthBegin = monthOf(at)
    const end = Math.max(monthBegin, dayOf(at) - DAY_MS)
    await readClosedDays(projects, { monthBegin, end, at })
    // The clock of ingest may be ahead.
    const open = await sumUsage(books, projects, { from: end, to: nextMonthOf(at) })
    const usage = new Map<number, MeasuredUsage>(projects.map((project) => [project, {
      monthBegin,
      events: (closed.sums.get(project) ?? 0) + (open.get(project) ?? 0),
      countedThrough: at - BOOKS_BEHIND_MS
    }]))
    await writeUsage(sql, usage)
    return new Map(quotas.map(([project, { eventsPerMonth }]) =>
      [project, (usage.get(project)?.events ?? 0) / (eventsPerMonth ?? Infinity)]))
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
