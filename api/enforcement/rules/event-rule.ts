import { RULE_LIMITS, type RuleDefinition } from '../../../engines/rules/rule-definition.ts'
import { type UserSummary, userSummarySchema } from '../../projects/users.ts'
import { baseVersionSchema, type VersionedKind } from '../versioned-definitions.ts'

/** A rule as answers show it, with its newest version. */
export interface EventRule extends RuleDefinition {
  id: number
  team_id: number
  name: string
  description: string
  position: number
  version: number
  first_version: number
  active_version: number | null
  created_by: UserSummary | null
  created_at: Date
  updated_at: Date
}

/** A version as answers show it. */
export interface EventRuleVersion extends RuleDefinition {
  version: number
  created_by: UserSummary | null
  created_at: Date
}

const anyObject = { type: 'object', additionalProperties: true } as const

/** What makes a version. */
const definition = {
  condition: {
    type: ['object', 'null'],
    additionalProperties: true,
    description: 'Which events: a comparison, or {type: AND or OR, values} of several; null: all. See docs/rules.md.'
  },
  actions: { type: 'array', items: anyObject, maxItems: RULE_LIMITS.actions, description: 'What becomes of them, in order.' },
  tests: {
    type: 'array', items: anyObject, maxItems: RULE_LIMITS.tests, description: 'Events that show what the rule is meant to do; tried when it is saved.'
  }
} as const

const writable = {
  description: { type: 'string', maxLength: 3000, description: 'What the rule is for.' },
  position: {
    type: 'integer', minimum: 0, maximum: 1_000_000, description: 'Rules run by this number. Default: after the others.'
  },
  ...definition,
  active_version: {
    type: ['integer', 'null'], minimum: 1, maximum: 2_147_483_647, description: 'Version that is enforced; null: none.'
  }
} as const

/** At most 200 a project, listed in the order in which they run. */
export const EVENT_RULES: VersionedKind<EventRule, EventRuleVersion> = {
  noun: 'rule',
  table: 'event_rules',
  versionsTable: 'event_rule_versions',
  parentColumn: 'rule_id',
  contentColumn: 'definition',
  nameColumn: 'name',
  order: [{ column: 'd.position', field: 'position', kind: 'integer' }, { column: 'd.id', field: 'id', kind: 'integer' }],
  definitionColumns: 'd.name, d.description, d.position',
  contentColumns: `v.definition->'condition' AS condition, v.definition->'actions' AS actions,
    COALESCE(v.definition->'tests', '[]'::json) AS tests`,
  writable: Object.keys(writable)
}

const name = {
  type: 'string', minLength: 1, maxLength: 100, description: 'Shown in receipts of events that it drops. Cannot be changed.'
} as const

const dateTime = { type: 'string', format: 'date-time' } as const

const readOnly = {
  id: { type: 'integer' },
  team_id: { type: 'integer', description: 'Id of the project.' },
  version: { type: 'integer', description: 'Newest version; every change of condition, actions or tests makes one.' },
  first_version: {
    type: 'integer', description: 'First version of this rule. Those before are of deleted rules of the same name.'
  },
  created_by: userSummarySchema,
  created_at: dateTime,
  updated_at: dateTime
} as const

export type EventRuleFields = Partial<Pick<EventRule, keyof typeof writable>>

/** Fields to change, the newest version when the change was begun, and the name, which stays. */
export type EventRuleChange = EventRuleFields & { version?: number, name?: unknown }

export type NewEventRule = EventRuleFields & Pick<EventRule, 'name' | 'actions'>

const order = [
  'id', 'team_id', 'name', 'description', 'position', 'condition', 'actions', 'tests', 'version', 'first_version', 'active_version',
  'created_by', 'created_at', 'updated_at'
] as const

const properties: Record<string, object> = { name, ...writable, ...readOnly }

export const eventRuleSchema = {
  $id: 'EventRule',
  type: 'object',
  required: order,
  properties: Object.fromEntries(order.map((each) => [each, properties[each]]))
}

export const ruleVersionSchema = {
  type: 'object',
  required: ['version', 'condition', 'actions', 'tests', 'created_by', 'created_at'],
  properties: { version: { type: 'integer' }, ...definition, created_by: userSummarySchema, created_at: dateTime }
} as const

/** What a check of stored events takes. */
export interface RuleCheckFields extends Partial<RuleDefinition> {
  days?: number
  limit?: number
}

export const ruleCheckBodySchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    condition: definition.condition,
    actions: { ...definition.actions, description: 'A draft, with condition and tests; default: the newest version.' },
    tests: definition.tests,
    days: { type: 'integer', minimum: 1, maximum: 365, description: 'Days before now, by the timestamp of the events; default 7.' },
    limit: { type: 'integer', minimum: 1, maximum: 100_000_000, description: 'Events at most, newest day first; default 100,000.' }
  }
} as const

const count = { type: 'integer' } as const
const text = { type: 'string' } as const

function listOf (fields: Record<string, object>): object {
  return { type: 'array', items: { type: 'object', required: Object.keys(fields), properties: fields } }
}

const predicted = {
  events: { ...count, description: 'Events of names with which the rule may do something; others are not looked into.' },
  matched: { ...count, description: 'Of them, those that pass the condition.' },
  dropped: { ...count, description: 'Of the matched ones: not stored.' },
  sampled: { ...count, description: 'Of the matched ones: not stored, because their distinct id is not in the share.' },
  changed: { ...count, description: 'Of the matched ones: stored with other properties.' },
  without_address: { ...count, description: 'Events without a stored address, of which a condition on it cannot be predicted.' },
  complete: { type: 'boolean', description: 'false: there are more events than the limit.' },
  names: { ...listOf({ event: text, events: count, matched: count }), description: 'By name, most matched events first.' },
  libs: { ...listOf({ lib: text, lib_version: text, events: count, matched: count }), description: 'By SDK, most matched events first.' },
  samples: { ...listOf({ uuid: text, event: text }), description: 'Some events that pass.' }
} as const

export const rulePredictionSchema = { type: 'object', required: Object.keys(predicted), properties: predicted } as const

export const ruleCountsSchema = {
  type: 'object',
  required: ['results'],
  properties: {
    results: {
      ...listOf({ rule: count, dropped: count, sampled: count, changed: count }), description: 'By id of the rule; rules that did nothing are missing.'
    }
  }
} as const

/** Clients may send back a whole rule: read-only fields are accepted and ignored. */
const body = {
  type: 'object',
  additionalProperties: false,
  properties: { ...writable, ...Object.fromEntries(Object.keys(readOnly).map((each) => [each, { readOnly: true }])) }
}

export const newEventRuleSchema = { ...body, properties: { ...body.properties, name }, required: ['name', 'actions'] }

export const eventRuleChangesSchema = {
  ...body, properties: { ...body.properties, name: { readOnly: true }, version: baseVersionSchema }
}
