import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { SqlTemplates } from '../../platform/postgres/connect-postgres.ts'

/** The clock of ClickHouse, which stamps events, compared with that of Postgres, which stamps what users do. */
export interface Clocks {
  /** Time of ClickHouse, epoch milliseconds. */
  nowMs: number
  /** Day of ClickHouse, such as 2026-01-31. */
  today: string
  /** How far the clock of ClickHouse is ahead of that of Postgres, in whole milliseconds; negative when behind. */
  clockLeadMs: number
}

/** Reads the clocks of both stores. */
export async function compareClocks (clickhouse: ClickHouse, sql: SqlTemplates): Promise<Clocks> {
  const beforeMs = await readPostgresClock(sql)
  const [row] = await queryRows<{ now: string, today: string }>(clickhouse,
    'SELECT toUnixTimestamp64Milli(now64(3)) AS now, toString(today()) AS today')
  if (row === undefined) throw new Error('ClickHouse answered the query for its clock with no row')
  const afterMs = await readPostgresClock(sql)
  const nowMs = Number(row.now)
  return { nowMs, today: row.today, clockLeadMs: clockLead({ beforeMs, nowMs, afterMs }) }
}

/**
 * The smallest lead of one clock over another that fits the readings: 0 unless they certainly differ. Clocks of one
 * machine thus differ by 0 however long the query took; those of two machines are compared to the time of one query.
 *
 * @param times.beforeMs  The other clock before the query.
 * @param times.nowMs     The clock that was queried, in whole milliseconds.
 * @param times.afterMs   The other clock after the query.
 * @returns whole milliseconds.
 */
export function clockLead ({ beforeMs, nowMs, afterMs }: { beforeMs: number, nowMs: number, afterMs: number }): number {
  const least = Math.floor(nowMs - afterMs)
  const most = Math.ceil(nowMs + 1 - beforeMs)
  return Math.max(0, least) + Math.min(0, most)
}

/**
 * Sets the times of what users did to now where they are in the future, because the clock of Postgres was set back.
 * Otherwise a deletion would hold until that time comes.
 */
export async function forgetFuture (sql: SqlTemplates): Promise<void> {
  await sql`
    UPDATE event_definitions SET
      deleted_at = CASE WHEN deleted_at IS NOT NULL THEN least(deleted_at, clock_timestamp()) END,
      volume_written_at = CASE WHEN volume_written_at IS NOT NULL THEN least(volume_written_at, clock_timestamp()) END,
      last_seen_written_at = CASE WHEN last_seen_written_at IS NOT NULL THEN least(last_seen_written_at, clock_timestamp()) END,
      query_usage_written_at = CASE WHEN query_usage_written_at IS NOT NULL THEN least(query_usage_written_at, clock_timestamp()) END
    WHERE greatest(deleted_at, volume_written_at, last_seen_written_at, query_usage_written_at) > statement_timestamp()`
  await sql`
    UPDATE property_definitions SET
      deleted_at = CASE WHEN deleted_at IS NOT NULL THEN least(deleted_at, clock_timestamp()) END,
      renamed_at = CASE WHEN renamed_at IS NOT NULL THEN least(renamed_at, clock_timestamp()) END,
      query_usage_written_at = CASE WHEN query_usage_written_at IS NOT NULL THEN least(query_usage_written_at, clock_timestamp()) END
    WHERE greatest(deleted_at, renamed_at, query_usage_written_at) > statement_timestamp()`
}

async function readPostgresClock (sql: SqlTemplates): Promise<number> {
  const [{ now_ms: nowMs }] = await sql<[{ now_ms: number }]>`
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms`
  return nowMs
}
