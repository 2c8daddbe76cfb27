/** Why a flag has its value for a subject: every condition and every filter, by the code that answers `/flags`. */
import { compileCondition } from './compile-condition.ts'
import { compileFilter, type FilterContext, NO, YES } from './compile-filter.ts'
import { createContextFactory, type FlagSet } from './evaluate-flags.ts'
import type { FlagDefinition } from './flag-definition.ts'
import { buildOutcome, describeReason, type Outcome } from './flag-outcome.ts'
import { type ParsedCondition, type ParsedFilters, type ParsedProperty, parseFilters } from './parse-filters.ts'
import { compileIdentify, hashIdentifier } from './rollout-hash.ts'
import { ABSENT, compileGroupLookup, compilePersonLookup, NO_FACTS, type Subject, UNREAD } from './subject.ts'

/** One flag for one subject. */
export interface FlagExplanation {
  key: string
  active: boolean
  /** What `/flags` answers: a variant, true or false. */
  value: boolean | string
  /** It could not be computed; SDKs keep the value they had. */
  failed: boolean
  payload?: unknown
  reason: { code: Outcome['reason'], condition_index: number | null, description: string }
  /** In their order; the first that matches decides. Empty when the filters cannot be read. */
  conditions: ConditionExplanation[]
}

/** One condition set, also when an earlier one has decided. */
export interface ConditionExplanation {
  /** `condition_match`, or why it does not match; null when stored facts are missing. */
  result: string | null
  /** What the flag is when this condition decides: a variant, or true. */
  value: boolean | string | null
  filters: FilterExplanation[]
  rollout: RolloutExplanation
}

/** Where the subject is on the line from 0 to 100 that rollouts and variants divide. */
export interface RolloutExplanation {
  /** Percent of all identifiers. */
  percentage: number
  /** The hashed id: distinct id, device id or group key; null if the request has none. */
  identifier: string | null
  /** Place in the rollout, in percent: at most `percentage` is in. Null without an identifier. */
  place: number | null
  /** Place among the variants, in percent; null for flags without variants. */
  variant_place: number | null
}

/** One filter of a condition. */
export interface FilterExplanation {
  type: 'person' | 'group' | 'cohort' | 'flag'
  key: string
  operator: string
  /** As in the flag. */
  value: unknown
  /** The value it was compared with; absent if missing, or if the caller may not see stored values. */
  seen?: unknown
  /** Where that comes from: the request, Postgres, another flag; or nowhere. */
  source: 'sent' | 'stored' | 'flag' | 'missing' | 'not_read'
  /** Null when stored facts are missing. */
  passes: boolean | null
}

/**
 * Explains the outcome of one flag.
 *
 * @param subject  After `evaluateFlags`, with stored facts read: `subject.stored` is null when they could not be.
 * @param outcome  What `evaluateFlags` answered.
 * @param options.withStoredValues  Show values that Postgres has and the request did not send.
 */
export function explainFlag (
  set: FlagSet, subject: Subject, outcome: Outcome, options: { withStoredValues: boolean }
): FlagExplanation {
  const { definition } = set.flags[set.positions.get(outcome.key)!]!
  const { reason, conditionIndex } = outcome
  return {
    key: outcome.key,
    active: definition.active,
    value: outcome.value,
    failed: outcome.failed,
    ...(outcome.payload === undefined ? {} : { payload: outcome.payload }),
    reason: { code: reason, condition_index: conditionIndex, description: describeReason(reason, conditionIndex) },
    conditions: explainConditions(set, definition, subject, options)
  }
}

function explainConditions (
  set: FlagSet, definition: FlagDefinition, subject: Subject, options: { withStoredValues: boolean }
): ConditionExplanation[] {
  const context = createContextFactory(set.definitions, { ...set, staticCohorts: new Set() })()
  try {
    const filters = parseFilters(definition.filters)
    return filters.conditions.map((condition) => ({
      ...tryCondition(definition, filters, condition, { context, subject }),
      filters: condition.properties.map((property) =>
        explainFilter(property, condition.aggregation, { context, subject, ...options })),
      rollout: explainRollout(definition, filters, condition, subject)
    }))
  } catch {
    // The reason of the outcome says that the filters are malformed.
    return []
  }
}

interface FilterPlace {
  context: FilterContext
  subject: Subject
}

function tryCondition (
  definition: FlagDefinition, { variants }: ParsedFilters, condition: ParsedCondition, { context, subject }: FilterPlace
): Pick<ConditionExplanation, 'result' | 'value'> {
  const match = (variant: string | null): Outcome =>
    buildOutcome(definition, { enabled: true, variant, reason: 'condition_match' }, () => ({ count: 0 }))
  const outcomes = { plain: match(null), byVariant: variants.map(({ key }) => match(key)) }
  const result = compileCondition(definition, condition, variants, { outcomes, context })(subject)
  if (result === undefined) return { result: null, value: null }
  return typeof result === 'object' ? { result: 'condition_match', value: result.value } : { result, value: null }
}

function explainFilter (
  property: ParsedProperty, aggregation: number | null,
  { context, subject, withStoredValues }: FilterPlace & { withStoredValues: boolean }
): FilterExplanation {
  const { key, operator, value } = property
  const truth = compileFilter(property, aggregation, context)(subject)
  const passes = truth === YES ? true : truth === NO ? false : null
  if (property.type === 'flag') {
    const position = context.findFlag(key)
    const other = position === -1 ? undefined : context.evaluateFlag(position, subject)
    const flag = { type: 'flag', key, operator, value, passes } as const
    return other === undefined ? { ...flag, source: 'missing' } : { ...flag, source: 'flag', seen: other.value }
  }
  if (property.type === 'cohort') {
    return { type: 'cohort', key, operator, value, passes, source: subject.stored === null ? 'not_read' : 'stored' }
  }
  const groupType = property.type === 'person' ? null : property.groupTypeIndex ?? aggregation
  const lookup = groupType === null ? compilePersonLookup(key) : compileGroupLookup(groupType, key)
  const seen = lookup(subject)
  const type = groupType === null ? 'person' : 'group'
  if (seen === UNREAD) return { type, key, operator, value, passes, source: 'not_read' }
  if (seen === ABSENT) return { type, key, operator, value, passes, source: 'missing' }
  const source = lookup({ ...subject, stored: NO_FACTS }) === seen ? 'sent' : 'stored'
  return { type, key, operator, value, passes, source, ...(source === 'sent' || withStoredValues ? { seen } : {}) }
}

function explainRollout (
  definition: FlagDefinition, { variants }: ParsedFilters, { aggregation, rolloutPercentage }: ParsedCondition,
  subject: Subject
): RolloutExplanation {
  const identifier = compileIdentify(definition, aggregation)(subject)
  const isKnown = typeof identifier === 'string'
  const placeOf = (salt: '' | 'variant'): number | null =>
    isKnown ? 100 * hashIdentifier(definition.key, identifier, salt) : null
  return {
    percentage: rolloutPercentage,
    identifier: isKnown ? identifier : null,
    place: placeOf(''),
    variant_place: variants.length === 0 ? null : placeOf('variant')
  }
}
