import { type ClickHouse, queryRows } from '../clickhouse/connect-clickhouse.ts'
import { RULE_SEPARATOR, WARNINGS_TABLE } from '../../schema/ingestion-warnings.ts'

/** What a rule did with the events of some days. */
export interface RuleCounts {
  /** Id of the rule. */
  rule: number
  dropped: number
  /** Not stored, because their distinct id is not in the share. */
  sampled: number
  changed: number
}

const DAY_MS = 86_400_000

/** Counts what the rules of a project did; those that did nothing are not in the list. Exact, some seconds behind. */
export async function readRuleCounts (
  clickhouse: ClickHouse, { projectId, days, now }: { projectId: number, days: number, now: number }
): Promise<RuleCounts[]> {
  return await queryRows<RuleCounts>(clickhouse, `
    SELECT
      toUInt32(splitByString('${RULE_SEPARATOR}', source)[2]) AS rule,
      toUInt32(sumIf(total, reason = 'rule_dropped')) AS dropped,
      toUInt32(sumIf(total, reason = 'rule_sampled')) AS sampled,
      toUInt32(sumIf(total, reason = 'rule_changed')) AS changed
    FROM (
      SELECT reason, source, minute, max(count) AS total
      FROM ${WARNINGS_TABLE}
      WHERE project_id = {project: UInt32} AND minute >= toDateTime({from: UInt32}, 'UTC')
        AND reason IN ('rule_dropped', 'rule_sampled', 'rule_changed') AND position(source, '${RULE_SEPARATOR}') > 0
      GROUP BY reason, source, minute
    ) GROUP BY rule ORDER BY rule`, { project: projectId, from: Math.floor((now - days * DAY_MS) / 1000) })
}
