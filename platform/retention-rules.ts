import { groupByCutoff, type RetentionRule } from '../schema/retention.ts'
import { type ClickHouse, queryRows } from './clickhouse/connect-clickhouse.ts'
import type { Sql, TransactionSql } from './postgres/connect-postgres.ts'

/** All rules; what has none is kept indefinitely. */
export async function listRetention (sql: Sql | TransactionSql): Promise<RetentionRule[]> {
  return await sql<RetentionRule[]>`
    SELECT what, project_id AS "projectId", days FROM retention ORDER BY what DESC, project_id NULLS FIRST`
}

/**
 * The last day before the first stored event on which there were events, by their volumes, which retention leaves: it
 * removed them, by whatever rule there was then.
 */
const LAST_REMOVED = `
  SELECT toString(max(day) + 1) AS day FROM (
    SELECT day FROM event_volumes_by_day
    WHERE project_id = {project: UInt32} AND day < ifNull((
      SELECT toDate(timestamp) FROM events WHERE project_id = {project: UInt32} ORDER BY project_id, toDate(timestamp) LIMIT 1
    ), toDate('2149-01-01'))
    GROUP BY day HAVING toInt64(sum(volume)) > 0
  ) HAVING count() > 0`

/**
 * The first day, in UTC, of which a project has its events: retention removes those before. Null: it removes none.
 *
 * @param now  Epoch milliseconds.
 * @throws when ClickHouse does not answer.
 */
export async function readKeptFrom (
  { sql, clickhouse }: { sql: Sql, clickhouse: ClickHouse }, projectId: number, now: number
): Promise<string | null> {
  const [[group], [removed]] = await Promise.all([
    listRetention(sql).then((rules) => groupByCutoff(rules, [projectId], now)),
    queryRows<{ day: string }>(clickhouse, LAST_REMOVED, { project: projectId })
  ])
  const days = [group?.before, removed?.day].filter((day) => typeof day === 'string')
  return days.sort().at(-1) ?? null
}
