import { invalidField, DefinitionError } from '../../../engines/errors.ts'
import { type CompiledRule, compileRule } from '../../../engines/rules/compile-rule.ts'
import { RULE_LIMITS, type RuleDefinition } from '../../../engines/rules/rule-definition.ts'
import { type DefinitionKind, describeCheck, describeFields, listOf } from '../definition-kind.ts'
import { integer, object, type Row, string, type Value } from '../../http/json-schema.ts'

const anyObject = { type: 'object', additionalProperties: true } as const

const definition = {
  condition: {
    type: ['object', 'null'],
    additionalProperties: true,
    description: 'Events to match: a comparison, or {type: AND or OR, values} of several; null: all events. See docs/change/rules-and-schemas.md.'
  },
  actions: { type: 'array', items: anyObject, maxItems: RULE_LIMITS.actions, description: 'Actions on matching events, in order.' }
} as const

export const RULE_FIELDS = describeFields({
  $id: 'EventRule',
  noun: 'rule',
  makesVersion: 'every change of condition or actions makes one',
  name: { name: { type: 'string', minLength: 1, maxLength: 100, description: 'Shown in receipts of dropped events. Cannot be changed.' } },
  own: {
    description: { type: 'string', maxLength: 3000, description: 'Purpose of the rule.' },
    position: {
      type: 'integer', minimum: 0, maximum: 1_000_000, description: 'Rules run in ascending order. Default: after all others.'
    }
  },
  content: definition,
  required: ['name', 'actions']
})

type EventRule = Row<typeof RULE_FIELDS.definition>
type EventRuleVersion = Row<typeof RULE_FIELDS.version>

/** Between the positions of two rules, so that another one can be put between them. */
const POSITION_STEP = 10
const LAST_POSITION = 1_000_000

/** Listed in the order in which they run. */
export const EVENT_RULES: DefinitionKind<EventRule, EventRuleVersion, RuleDefinition> = {
  noun: 'rule',
  tag: 'rules',
  one: 'a rule',
  table: 'event_rules',
  versionsTable: 'event_rule_versions',
  parentColumn: 'rule_id',
  contentColumn: 'definition',
  nameColumn: 'name',
  ofName: 'of this name',
  order: [{ column: 'd.position', kind: 'integer' }, { column: 'd.id', kind: 'integer' }],
  columns: ['description', 'position'],
  defaults: async (tx, projectId) => {
    const [found] = await tx<{ last: number }[]>`
      SELECT COALESCE(max(position), 0) AS last FROM event_rules WHERE project_id = ${projectId} AND NOT deleted`
    return { description: '', position: Math.min((found?.last ?? 0) + POSITION_STEP, LAST_POSITION) }
  },
  contentColumns: "v.definition->'condition' AS condition, v.definition->'actions' AS actions",
  writable: RULE_FIELDS.writable,
  limit: 200,
  checkName: () => {},
  readContent: (fields, newest) => {
    // The schema of the request guarantees their outer shape, `compile` the rest.
    const { condition, actions } = fields as Partial<RuleDefinition>
    if (newest === undefined) return { condition: condition ?? null, actions: actions ?? [] }
    if (condition === undefined && actions === undefined) return undefined
    return { condition: condition === undefined ? newest.condition : condition, actions: actions ?? newest.actions }
  },
  compile: compileDraftRule
}

/** Hashes of drafts are made with it, so that none of them tells anything about the deployment. */
const DRAFT_KEY = { secret: new Uint8Array(16), projectId: 0 }

/** Compiles a rule of a request. @throws {HttpError} 400 naming the place in `attr`, such as `actions__0__rate`. */
export function compileDraftRule ({ condition, actions }: Partial<RuleDefinition>): CompiledRule {
  try {
    return compileRule({ condition: condition ?? null, actions }, DRAFT_KEY)
  } catch (error) {
    if (!(error instanceof DefinitionError)) throw error
    throw invalidField(error.path.join('__') || 'actions', error.message, 'invalid_rule')
  }
}

export const RULE_CHECK_LIMIT = 100_000

export const ruleCheckBodySchema = describeCheck({
  condition: definition.condition,
  actions: { ...definition.actions, description: 'A draft, with its condition; default: the newest version.' }
}, RULE_CHECK_LIMIT)

const predicted = {
  events: { ...integer, description: 'Events whose name the rule can match; others are skipped.' },
  matched: { ...integer, description: 'Number of events that match the condition.' },
  dropped: { ...integer, description: 'Matched events not stored.' },
  sampled: { ...integer, description: 'Matched events not stored, because their distinct id is outside the sample.' },
  changed: { ...integer, description: 'Matched events stored with changed properties.' },
  without_address: { ...integer, description: 'Events without a stored address, for which a condition on the address cannot be predicted.' },
  complete: { type: 'boolean', description: 'false: there are more events than the limit.' },
  names: { ...listOf({ event: string, events: integer, matched: integer }), description: 'By name, most matched events first.' },
  libs: { ...listOf({ lib: string, lib_version: string, events: integer, matched: integer }), description: 'By SDK, most matched events first.' },
  samples: { ...listOf({ uuid: string, event: string }), description: 'Samples of matching events.' }
} as const

export const rulePredictionSchema = object(predicted)

/** What a rule would have done with stored events; exact for the events that were looked into. */
export type RulePrediction = Value<typeof rulePredictionSchema>

export const ruleCountsSchema = object({
  results: {
    ...listOf({ rule: integer, dropped: integer, sampled: integer, changed: integer }), description: 'By rule id. Rules that did nothing are omitted.'
  }
})
