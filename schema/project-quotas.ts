/** Quotas of projects: the API writes them, the pipeline measures what of a month is used, and ingest enforces them. */

/** What becomes of events beyond a quota: the request is answered with 429, or a share of the people is stored. */
export const BEYOND = ['reject', 'sample'] as const

/** The quota of a project. At least one of the limits is set. */
export interface ProjectQuota {
  /** Events a second, of each ingest process; null: no limit. */
  eventsPerSecond: number | null
  /** Events that may come at once after a silence; null exactly when `eventsPerSecond` is. */
  burst: number | null
  /** Events of a calendar month of receipt, UTC, of all processes; null: no limit. */
  eventsPerMonth: number | null
  beyond: typeof BEYOND[number]
  /** Share of all distinct ids whose events are stored beyond the quota: at least 0.0001 and below 1. */
  sampleRate: number
}

/** What the pipeline has measured of a month, in Postgres: ingest has no connection to ClickHouse. */
export interface MeasuredUsage {
  /** Start of the month, epoch milliseconds. */
  monthBegin: number
  /** Events stored of those received in it. */
  events: number
  /** All events received before are counted, epoch milliseconds. */
  countedThrough: number
}

/** A quota with the measured usage; null until it is measured. */
export interface ActiveQuota extends ProjectQuota {
  usage: MeasuredUsage | null
}

/** Columns of an {@link ActiveQuota} in a query on {@link QUOTAS}. */
export const QUOTA_COLUMNS = `
  q.events_per_second AS "eventsPerSecond", q.burst, q.events_per_month AS "eventsPerMonth", q.beyond, q.sample_rate AS "sampleRate",
  CASE WHEN u.month IS NOT NULL THEN json_build_object('monthBegin', extract(epoch FROM u.month)::bigint * 1000,
    'events', u.events, 'countedThrough', floor(extract(epoch FROM u.counted_through) * 1000)) END AS usage`

export const QUOTAS = 'project_quotas AS q LEFT JOIN project_usage AS u ON u.project_id = q.project_id'

/** Seconds' worth of events that may come at once, unless the project says how many events. */
export const BURST_SECONDS = 10

/** Start of the calendar month of a moment, UTC; epoch milliseconds. */
export function monthOf (epochMs: number): number {
  const date = new Date(epochMs)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}

/** Start of the month after. */
export function nextMonthOf (epochMs: number): number {
  const date = new Date(epochMs)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)
}
