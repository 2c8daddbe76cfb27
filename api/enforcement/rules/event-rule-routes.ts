import type { FastifyInstance } from 'fastify'
import { type DefinitionDeps, registerDefinitionRoutes } from '../definition-routes.ts'
import { checkStoredEventsByRule } from './check-stored-rules.ts'
import {
  compileDraftRule, EVENT_RULES, RULE_CHECK_LIMIT, RULE_FIELDS, ruleCheckBodySchema, ruleCountsSchema,
  rulePredictionSchema
} from './event-rule.ts'
import { readRuleCounts } from './read-rule-counts.ts'

export async function eventRuleRoutes (app: FastifyInstance, deps: DefinitionDeps): Promise<void> {
  registerDefinitionRoutes(app, deps, {
    kind: EVENT_RULES,
    fields: RULE_FIELDS,
    limits: {},
    titles: {
      list: 'List rules',
      listed: 'In the order in which they run.',
      created: 'Its tests are tried first. Not enforced before a version is active.',
      counts: 'Count what rules did',
      counted: 'Events that each rule dropped, sampled out or changed.',
      versions: 'List the versions of a rule',
      updated: 'Another condition, action or test',
      checked: 'Says what the rule would have done with events that are stored.',
      deleted: 'It is no longer enforced. Another one of the same name has a history of its own, whose numbers go on.'
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
