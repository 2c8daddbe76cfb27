import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { RULE_SEPARATOR } from '../../../schema/wire/ingestion-warnings.ts'
import { countByDefinition, type CountedDefinition, type CountsQuery } from '../definition-counts.ts'
import type { Value } from '../../http/json-schema.ts'
import type { ruleCountsSchema } from './event-rule.ts'

/** What a rule did with the events of some days. */
export type RuleCounts = Value<typeof ruleCountsSchema>['results'][number]

const REASONS = { rule_dropped: 'dropped', rule_sampled: 'sampled', rule_changed: 'changed' } as const

/**
 * Counts what the rules of a project did; those that did nothing are not in the list. Exact, some seconds behind.
 *
 * @param rules  Those that there are: counts of a deleted one are not those of a new one of its name.
 */
export async function readRuleCounts (
  clickhouse: ClickHouse, query: CountsQuery, rules: readonly CountedDefinition[]
): Promise<RuleCounts[]> {
  const rows = await countByDefinition(clickhouse, query, {
    separator: RULE_SEPARATOR, reasons: Object.keys(REASONS) as (keyof typeof REASONS)[], definitions: rules
  })
  const counts = new Map<number, RuleCounts>()
  for (const { id, reason, count } of rows) {
    const ofRule = counts.get(id) ?? { rule: id, dropped: 0, sampled: 0, changed: 0 }
    ofRule[REASONS[reason]] = count
    counts.set(id, ofRule)
  }
  return [...counts.values()]
}
