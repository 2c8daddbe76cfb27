/**
 * What the pipeline has measured of the running month, in Postgres: ingest, which enforces the quota of the month, has
 * no connection to ClickHouse.
 */
import type { Sql } from '../postgres/connect-postgres.ts'

/** What the pipeline has measured of a month. */
export interface MeasuredUsage {
  /** Start of the month, epoch milliseconds. */
  monthBegin: number
  /** Events stored of those received in it. */
  events: number
  /** All events received before are counted, epoch milliseconds. */
  countedThrough: number
}

/** Stores what was measured. A project that was deleted meanwhile is left out. */
export async function writeUsage (sql: Sql, usage: ReadonlyMap<number, MeasuredUsage>): Promise<void> {
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
