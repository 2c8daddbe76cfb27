import { type WarningReason, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'

export interface CountedDefinition {
  id: number
  /** Versions before are of deleted ones of the same name, as are counts of before it was created. */
  first_version: number
  created_at: Date
}

export interface CountsQuery {
  projectId: number
  /** Days before now, by the time of receipt. */
  days: number
  /** Epoch milliseconds. */
  now: number
}

export interface DefinitionCount<Reason extends WarningReason> {
  id: number
  reason: Reason
  count: number
}

interface CountedTotals<Reason> {
  separator: string
  reasons: readonly Reason[]
  definitions: readonly CountedDefinition[]
}

const DAY_MS = 86_400_000
const MINUTE_MS = 60_000

export function beginOf ({ days, now }: CountsQuery): number {
  return Math.floor((now - days * DAY_MS) / 1000)
}

/**
 * Adds up the warnings of rules or schemas, by id and reason; exact, some seconds behind.
 *
 * @param separator    What stands before the id in `source`.
 * @param definitions  Those that there are: a new one does not have the counts of a deleted one of its name. Totals are
 *   of minutes, so it has those of the whole minute in which it was created.
 */
export async function countByDefinition<Reason extends WarningReason> (
  clickhouse: ClickHouse, query: CountsQuery, { separator, reasons, definitions }: CountedTotals<Reason>
): Promise<DefinitionCount<Reason>[]> {
  const again = definitions.filter(({ first_version: first }) => first > 1)
  return await queryRows<DefinitionCount<Reason>>(clickhouse, `
    SELECT definition AS id, reason, toUInt32(sum(total)) AS count
    FROM (
      SELECT toUInt32OrZero(splitByString('${separator}', source)[2]) AS definition, reason, minute, max(count) AS total
      FROM ${WARNINGS_TABLE}
      WHERE project_id = {project: UInt32} AND minute >= toDateTime({from: UInt32}, 'UTC')
        AND reason IN {reasons: Array(String)} AND position(source, '${separator}') > 0
      GROUP BY source, reason, minute
    )
    WHERE minute >= toDateTime(arrayElement({since: Array(UInt32)}, indexOf({again: Array(UInt32)}, definition)), 'UTC')
    GROUP BY id, reason ORDER BY id`, {
    project: query.projectId,
    from: beginOf(query),
    reasons,
    again: again.map(({ id }) => id),
    since: again.map(({ created_at: at }) => Math.floor(at.getTime() / MINUTE_MS) * MINUTE_MS / 1000)
  })
}
