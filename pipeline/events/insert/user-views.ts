/** Materialized views that users made on tables of ours, which ClickHouse runs inside of our inserts. */
import { ANSWERING_NODES } from '../../../schema/migrate/clickhouse-topology.ts'
import { type ClickHouse, LOCAL_DATABASE, queryRows, systemTable } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { hostOf } from '../../health/watch-clickhouse.ts'

/** Tables that views of our own fill from `events`, each by `<table>_view`; what they count must be exact. */
export const TABLES_OF_OUR_VIEWS = ['event_volumes_by_day', 'event_property_counts'] as const

const NAME = '(?:\\w+|`(?:\\\\.|[^`\\\\])+`)'
const PUSHED = new RegExp(`(?:: while pushing to view ${NAME}\\.${NAME})+`, 'g')
const WITHOUT_TARGET = /^Code: 60\. DB::Exception: Target table '([^']+)' of view/

/**
 * The view in which an insert failed by the text of ClickHouse, which names it last, the innermost of several first.
 *
 * @returns `<database>.<view>`, or `<database>.<table>` when it is missing its table; null for other errors.
 */
export function readFailedView (text: string): string | null {
  return WITHOUT_TARGET.exec(text)?.[1] ?? text.match(PUSHED)?.at(-1)?.split(': while pushing to view ')[1] ?? null
}

/** Whether it is a view of ours, or its table. @param database  That of our tables, on one node. */
export function isOurView (view: string, database: string): boolean {
  return TABLES_OF_OUR_VIEWS.some((table) => [table, `${table}_view`].some((name) => view === `${database}.${name}`))
}

/**
 * The views of users on tables of ours, without those behind other views of users. @throws when ClickHouse does not
 * answer.
 *
 * @param tables  Default: all.
 */
export async function listUserViews (clickhouse: ClickHouse, tables: readonly string[] = []): Promise<string[]> {
  const rows = await queryRows<{ view: string }>(clickhouse, `
    SELECT DISTINCT concat(of, '.', name) AS view FROM system.tables
    ARRAY JOIN dependencies_database AS of, dependencies_table AS name
    WHERE database IN (currentDatabase(), ${LOCAL_DATABASE}) AND (table IN {tables: Array(String)} OR empty({tables: Array(String)}))
      AND NOT (of = ${LOCAL_DATABASE} AND name IN {views: Array(String)}) ORDER BY view`,
  { tables, views: TABLES_OF_OUR_VIEWS.map((table) => `${table}_view`) })
  return rows.map(({ view }) => view)
}

/** The last error of a code on a node, and how many there were. */
export interface LastError {
  key: string
  code: number
  count: number
  secondsAgo: number
  message: string
}

/** Also of errors that an insert passed over. @throws when ClickHouse does not answer, or does not let us read them. */
export async function readLastErrors (clickhouse: ClickHouse, cluster: string): Promise<LastError[]> {
  return await queryRows<LastError>(clickhouse, `
    SELECT concat(${hostOf(cluster)}, ' ', toString(code), ' ', toString(remote)) AS key, code, toFloat64(value) AS count,
      dateDiff('second', last_error_time, now()) AS secondsAgo, last_error_message AS message
    FROM ${systemTable(cluster, 'errors')} SETTINGS ${ANSWERING_NODES}`)
}
