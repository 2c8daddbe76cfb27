import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { RULE_SEPARATOR } from '../../../schema/wire/ingestion-warnings.ts'
import type { Value } from '../../http/json-schema.ts'
import { countByDefinition, type CountedDefinition, type CountsQuery } from '../definition-counts.ts'
import { type DefinitionDeps, registerDefinitionRoutes } from '../definition-routes.ts'
import { checkStoredEventsByRule } from './check-stored-rules.ts'
import {
  compileDraftRule, EVENT_RULES, RULE_CHECK_LIMIT, RULE_FIELDS, ruleCheckBodySchema, ruleCountsSchema,
  rulePredictionSchema
} from './event-rule.ts'

export async function eventRuleRoutes (app: FastifyInstance, deps: DefinitionDeps): Promise<void> {
  registerDefinitionRoutes(app, deps, {
    kind: EVENT_RULES,
    fields: RULE_FIELDS,
    limits: {},
    titles: {
      listed: 'In the order in which they run.',
      counts: 'Count the effects of rules',
      counted: 'Events that each rule dropped, sampled out or changed.',
      updated: 'Another condition or action',
      checked: 'Reports what the rule would have done with stored events.'
    },
    countsSchema: ruleCountsSchema,
    readCounts: readRuleCounts,
    check: {
      bodySchema: ruleCheckBodySchema,
      answerSchema: rulePredictionSchema,
      limit: RULE_CHECK_LIMIT,
      prepare: (stored, draft) => {
        const compiled = compileDraftRule(draft.actions === undefined ? { ...stored, ...draft } : draft)
        return async (clickhouse, query) => await checkStoredEventsByRule(clickhouse, compiled, query)
      }
    }
  })
}

type RuleCounts = Value<typeof ruleCountsSchema>['results'][number]

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
