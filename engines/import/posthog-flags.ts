/**
 * Flags and cohorts of PostHog as Millrace has them: the same key, filters and salt give the same value. What would
 * give another value, or may, is refused with its reason (`NotCarriedOverError`); so is every field that is not known
 * here, because it may decide something.
 */
import { needsHash } from '../flags/compile-condition.ts'
import { parseFilters } from '../flags/parse-filters.ts'
import { variantsOfFlag } from '../flags/flag-definition.ts'
import { fieldsOf, isFields, itemsOf } from '../fields.ts'
import { cutShares } from './cut-shares.ts'
import { type Fields, refuse } from './posthog-project.ts'

/** What a flag or a cohort may name, and what became of that. */
export interface CarriedNames {
  /** Ids of cohorts here, by the id in PostHog. */
  cohorts: ReadonlyMap<number, number>
  /** Keys of flags that were carried over, by id and by key in PostHog. */
  flags: ReadonlyMap<string, string>
  /** Numbers of group types here, by the number in PostHog. */
  groupTypes: ReadonlyMap<number, number>
  /** Whether dates without a zone mean the same in both projects. */
  hasSameTimezone: boolean
}

export type CarriedFlag = ReturnType<typeof toFlag>

const FLAG_FIELDS = [
  'id', 'key', 'name', 'filters', 'active', 'archived', 'deleted', 'ensure_experience_continuity', 'evaluation_runtime',
  'bucketing_identifier', 'has_encrypted_payloads', 'evaluation_contexts', 'evaluation_tags', 'evaluation_contexts_match_mode',
  // These decide no value.
  'created_by', 'created_at', 'updated_at', 'last_modified_by', 'last_called_at', 'version', 'tags', 'status', 'can_edit', 'user_access_level',
  'creation_context', 'experiment_set', 'experiment_set_metadata', 'is_eligible_for_experiment', 'surveys', 'features', 'usage_dashboard',
  'analytics_dashboards', 'has_enriched_analytics', 'is_remote_configuration', 'is_used_in_replay_settings', 'is_simple_flag',
  'rollout_percentage', 'rollback_conditions', 'performed_rollback', '_create_in_folder', '_should_create_usage_dashboard'
]
const FILTER_FIELDS = [
  'groups', 'multivariate', 'aggregation_group_type_index', 'payloads', 'feature_enrollment', 'holdout', 'early_exit',
  // Of older flags.
  'super_groups', 'holdout_groups'
]
const CONDITION_FIELDS = [
  'properties', 'rollout_percentage', 'variant', 'aggregation_group_type_index',
  // For people only. Exposure is frozen by the cohort that the condition names.
  'description', 'sort_key', 'users_affected', 'exposure_frozen', 'exposure_frozen_cohort'
]
const PROPERTY_FIELDS = [
  'key', 'value', 'type', 'operator', 'group_type_index', 'negation',
  // For people only.
  'label', 'cohort_name', 'group_key_names'
]
const BEHAVIOR_FIELDS = [
  'key', 'value', 'type', 'event_type', 'event_filters', 'time_value', 'time_interval', 'explicit_datetime', 'operator', 'operator_value', 'negation'
]
/** What PostHog computes of a filter, and adds to it. */
const COMPUTED_FIELDS = ['dependency_chain', 'bytecode', 'bytecode_error', 'conditionHash']

/**
 * A flag as the management API takes it.
 *
 * @param options.withContinuity  Also a flag with experience continuity: PostHog stores which id it hashes for
 *   each user, and does not export it.
 * @param options.notes  Called with each share that is written differently.
 * @throws {NotCarriedOverError}
 */
export function toFlag (
  flag: Fields, names: CarriedNames, { withContinuity, notes }: { withContinuity: boolean, notes: string[] }
) {
  requireKnown(flag, FLAG_FIELDS, 'the flag')
  if (typeof flag['key'] !== 'string') refuse('its key is no text')
  if (flag['archived'] === true) refuse('archived')
  if (flag['has_encrypted_payloads'] === true) refuse('its payloads are encrypted')
  const contexts = [flag['evaluation_contexts'] ?? [], flag['evaluation_tags'] ?? []].flat()
  if (contexts.length > 0) refuse(`limited to evaluation contexts (${contexts.map(String).join(', ')}), which are not supported`)
  const carried = {
    key: String(flag['key']),
    name: typeof flag['name'] === 'string' ? flag['name'] : '',
    filters: cutShares(toFilters(flag['filters'], names), notes),
    active: flag['active'] === true,
    ensure_experience_continuity: flag['ensure_experience_continuity'] === true,
    evaluation_runtime: String(flag['evaluation_runtime'] ?? '') || 'all',
    bucketing_identifier: String(flag['bucketing_identifier'] ?? '') || 'distinct_id'
  }
  const { conditions, variants } = parseFilters(carried.filters)
  const isHashed = conditions.some((condition) => condition.aggregation === null && needsHash(condition, variants))
  if (!withContinuity && carried.active && carried.ensure_experience_continuity && isHashed) {
    refuse('experience continuity: PostHog does not export which id it hashes for each person')
  }
  return carried
}

/** Ids of what the filters of a flag or a cohort name, by the type of filter that names it. */
export function namesOf (filters: unknown, type: 'flag' | 'cohort'): string[] {
  if (Array.isArray(filters)) return filters.flatMap((item) => namesOf(item, type))
  if (!isFields(filters)) return []
  const name = type === 'flag' ? filters['key'] : filters['value']
  return filters['type'] === type && typeof name !== 'object'
    ? [String(name)]
    : Object.values(filters).flatMap((value) => namesOf(value, type))
}

/** @throws {NotCarriedOverError} */
export function toCohort (cohort: Fields, names: CarriedNames): { name: string, filters: Record<string, unknown> } {
  if (cohort['is_static'] === true) refuse('static cohort: its definition does not list its members')
  const filters = fieldsOf(cohort['filters'])
  const group = toGroup(filters['properties'] ?? filters, names)
  if (Array.isArray(group['values']) && group['values'].length === 0) refuse('no filters, or filters in a legacy format')
  return { name: String(cohort['name'] ?? '') || `Cohort ${String(cohort['id'])}`, filters: group }
}

function toGroup (group: unknown, names: CarriedNames): Record<string, unknown> {
  const { type = 'AND', values = [] } = fieldsOf(group)
  if (!Array.isArray(values)) return refuse('filters.values is not a list')
  return {
    type,
    values: values.map((value: unknown) =>
      'values' in fieldsOf(value) ? toGroup(value, names) : toProperty(value, names, { ofCohort: true }))
  }
}

function toFilters (filters: unknown, names: CarriedNames): Record<string, unknown> {
  const fields = requireKnown(filters, FILTER_FIELDS, 'filters')
  const { multivariate, payloads, groups, super_groups: superGroups, ...rest } = fields
  const { variants } = isFields(multivariate) ? requireKnown(multivariate, ['variants'], 'multivariate') : {}
  itemsOf(variants).forEach((variant) => requireKnown(variant, ['key', 'name', 'description', 'rollout_percentage'], 'a variant'))
  const keys = new Set(variantsOfFlag(filters).map(({ key }) => key))
  const toConditions = (list: unknown): unknown[] => itemsOf(list).map((each) => toCondition(each, names, keys))
  // A payload or an override of a variant that is gone is never used, and refused here.
  const used = Object.entries(fieldsOf(payloads))
    .filter(([name]) => name === 'true' || keys.has(name) || name.startsWith('holdout-'))
  return {
    ...rest,
    ...withGroupType(fields, names),
    groups: toConditions(groups),
    ...isFields(multivariate) && { multivariate },
    ...superGroups !== undefined && { super_groups: toConditions(superGroups) },
    ...payloads !== undefined && { payloads: Object.fromEntries(used) }
  }
}

function toCondition (condition: unknown, names: CarriedNames, variants: ReadonlySet<string>): Record<string, unknown> {
  const fields = requireKnown(condition, CONDITION_FIELDS, 'a condition')
  const { properties, variant } = fields
  return {
    ...fields,
    ...withGroupType(fields, names),
    ...typeof variant === 'string' && !variants.has(variant) && { variant: null },
    properties: itemsOf(properties).map((property) => toProperty(property, names, { ofCohort: false }))
  }
}

/** Older names of operators. */
const OPERATORS: Readonly<Record<string, string>> = { min: 'gte', max: 'lte' }

function toProperty (
  property: unknown, names: CarriedNames, { ofCohort }: { ofCohort: boolean }
): Record<string, unknown> {
  if (ofCohort && fieldsOf(property)['type'] === 'behavioral') return toBehavior(property)
  const known = requireKnown(property, [...PROPERTY_FIELDS, ...COMPUTED_FIELDS], 'a filter')
  const fields = Object.fromEntries(Object.entries(known).filter(([name, each]) =>
    !COMPUTED_FIELDS.includes(name) && (each !== null || name === 'value' || !ofCohort)))
  const { key, type, operator, negation, value }: Fields = fields
  if (negation === true && !ofCohort) refuse(`negated filter on ${String(key)}`)
  if (typeof operator === 'string' && operator.startsWith('is_date') && !names.hasSameTimezone) {
    refuse(`${operator} on ${String(key)}: the two projects are not known to share a time zone`)
  }
  return {
    ...fields,
    ...withGroupType(fields, names, 'group_type_index'),
    ...typeof operator === 'string' && { operator: OPERATORS[operator] ?? operator },
    ...type === 'cohort' && { value: names.cohorts.get(Number(value)) ?? refuse(`depends on cohort ${String(value)}, which was not imported`) },
    ...type === 'flag' && { key: names.flags.get(String(key)) ?? refuse(`depends on flag ${String(key)}, which was not imported`) }
  }
}

/** What PostHog counts at most, it counts of persons who did it at least once. */
function toBehavior (property: unknown): Record<string, unknown> {
  const known = requireKnown(property, [...BEHAVIOR_FIELDS, ...COMPUTED_FIELDS], `a filter on what persons did (${String(fieldsOf(property)['value'])})`)
  const { operator, operator_value: times, time_value: length, time_interval: unit, ...rest } = Object.fromEntries(
    Object.entries(known).filter(([name, value]) => value !== null && !COMPUTED_FIELDS.includes(name)))
  const window = rest['explicit_datetime'] === undefined ? { time_value: Number(length), time_interval: unit } : {}
  const once: Record<string, unknown> = { ...rest, ...window, value: 'performed_event' }
  if (rest['value'] !== 'performed_event_multiple') return { ...once, value: rest['value'] }
  const counted = { ...once, value: rest['value'], operator: operator === 'eq' ? 'exact' : operator, operator_value: Number(times) }
  if (operator !== 'lte' && operator !== 'lt') return counted
  return { type: rest['negation'] === true ? 'OR' : 'AND', values: [counted, once] }
}

function withGroupType (
  fields: Fields, { groupTypes }: CarriedNames, name = 'aggregation_group_type_index'
): Record<string, unknown> {
  const index = fields[name] ?? null
  if (index === null) return {}
  return { [name]: groupTypes.get(Number(index)) ?? refuse(`group type ${String(index)} is missing from groups_types, or no event with it has arrived yet`) }
}

function requireKnown (value: unknown, known: readonly string[], what: string): Record<string, unknown> {
  if (!isFields(value)) return refuse(`${what} is not an object`)
  const unknown = Object.keys(value).filter((name) => value[name] !== null && !known.includes(name))
  if (unknown.length > 0) refuse(`${what} has unsupported fields: ${unknown.join(', ')}`)
  return value
}
