/** Quotas of projects: settings in Postgres, and their form in ingest. */
import { MillraceError } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../postgres/connect-postgres.ts'
import type { MeasuredUsage } from './measured-usage.ts'

/** What becomes of events beyond a quota: the request is answered with 429, or a share of the people is stored. */
export type Beyond = 'reject' | 'sample'

export const BEYOND = ['reject', 'sample'] as const satisfies readonly Beyond[]

/** Largest and smallest values; the table checks the same. */
export const QUOTA_LIMITS = {
  eventsPerSecond: 10_000_000,
  burst: 1_000_000_000,
  eventsPerMonth: 1_000_000_000_000_000,
  minSampleRate: 0.0001
} as const

/** Share of all distinct ids that is stored beyond a quota, unless the project says another one. */
export const DEFAULT_SAMPLE_RATE = 0.1

/** Seconds' worth of events that may come at once, unless the project says how many events. */
export const BURST_SECONDS = 10

/** The quota of a project. At least one of the limits is set. */
export interface ProjectQuota {
  /** Events a second, of each ingest process; null: no limit. */
  eventsPerSecond: number | null
  /** Events that may come at once after a silence; null exactly when `eventsPerSecond` is. */
  burst: number | null
  /** Events of a calendar month of receipt, UTC, of all processes; null: no limit. */
  eventsPerMonth: number | null
  beyond: Beyond
  /** Share of all distinct ids whose events are stored beyond the quota: at least 0.0001 and below 1. */
  sampleRate: number
}

/** A quota with the measured usage; null until it is measured. */
export interface ActiveQuota extends ProjectQuota {
  usage: MeasuredUsage | null
}

/** A quota as it is shown: with the time of its last change. */
export interface StoredQuota extends ActiveQuota {
  updatedAt: Date
}

/** Reads the quotas of all projects, or of one; projects without any are not in the map. */
export async function readQuotas (
  sql: Sql | TransactionSql, projectId: number | null = null
): Promise<Map<number, StoredQuota>> {
  const rows = await sql<(StoredQuota & { projectId: number })[]>`
    SELECT q.project_id AS "projectId", q.events_per_second AS "eventsPerSecond", q.burst, q.events_per_month AS "eventsPerMonth",
      q.beyond, q.sample_rate AS "sampleRate", q.updated_at AS "updatedAt",
      CASE WHEN u.month IS NOT NULL THEN json_build_object('monthBegin', extract(epoch FROM u.month)::bigint * 1000,
        'events', u.events, 'countedThrough', floor(extract(epoch FROM u.counted_through) * 1000)) END AS usage
    FROM project_quotas AS q LEFT JOIN project_usage AS u ON u.project_id = q.project_id
    WHERE ${projectId}::integer IS NULL OR q.project_id = ${projectId}`
  return new Map(rows.map(({ projectId, ...quota }) => [projectId, quota]))
}

/**
 * Sets or replaces the quota of a project. Every ingest process has it within a second.
 *
 * @throws {MillraceError} `MILLRACE_PROJECT_NOT_FOUND`.
 */
export async function setQuota (
  sql: Sql | TransactionSql, projectId: number, quota: ProjectQuota
): Promise<void> {
  const { eventsPerSecond, burst, eventsPerMonth, beyond, sampleRate } = quota
  if ((await sql`SELECT 1 FROM projects WHERE id = ${projectId}`).length === 0) {
    throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${projectId}`)
  }
  await sql`
    INSERT INTO project_quotas (project_id, events_per_second, burst, events_per_month, beyond, sample_rate)
    VALUES (${projectId}, ${eventsPerSecond}, ${burst}, ${eventsPerMonth}, ${beyond}, ${sampleRate})
    ON CONFLICT (project_id) DO UPDATE SET events_per_second = excluded.events_per_second, burst = excluded.burst,
      events_per_month = excluded.events_per_month, beyond = excluded.beyond, sample_rate = excluded.sample_rate,
      updated_at = now()`
}

export async function clearQuota (sql: Sql | TransactionSql, projectId: number): Promise<void> {
  await sql`DELETE FROM project_quotas WHERE project_id = ${projectId}`
}
