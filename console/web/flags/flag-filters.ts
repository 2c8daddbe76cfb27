/** The filters of a flag, as the console reads and writes them and as sentences. Unknown fields stay as they are. */
import { signal } from '@preact/signals'
import type { Schema } from '../../api-types.ts'
import { formatCounted } from '../format.ts'

/** Names of the cohorts of the project by their ids, for sentences; empty until they are known (`cohorts.ts`). */
export const cohortNames = signal<ReadonlyMap<string, string>>(new Map())

/** When the members of cohorts were found that flags look up, by their ids. */
export const cohortAges = signal<ReadonlyMap<string, string | null>>(new Map())

export interface FlagDefinition extends Pick<Schema<'FeatureFlag'>, 'key' | 'name' | 'active' | 'ensure_experience_continuity'> {
  filters: FlagFilters
  evaluation_runtime: string
  bucketing_identifier: string
}

export interface FeatureFlag extends FlagDefinition, Pick<Schema<'FeatureFlag'>, 'id' | 'version' | 'created_at' | 'updated_at'> {}

/** What the API fills in for a flag that is created from a key alone. */
export const EMPTY_FLAG: FlagDefinition = {
  key: '',
  name: '',
  active: true,
  filters: { groups: [] },
  ensure_experience_continuity: false,
  evaluation_runtime: 'all',
  bucketing_identifier: 'distinct_id'
}

export const WRITTEN_FIELDS = Object.keys(EMPTY_FLAG) as Array<keyof FlagDefinition>

/** The fields that are written, of a flag or of one of its versions. */
export function toDefinition (flag: FlagDefinition): FlagDefinition {
  return Object.fromEntries(WRITTEN_FIELDS.map((name) => [name, flag[name]])) as unknown as FlagDefinition
}

export interface FlagFilters {
  groups?: Condition[]
  multivariate?: { variants: Variant[], rest_without_variant?: boolean } | null
  payloads?: Record<string, unknown>
}

export interface Condition {
  properties?: PropertyFilter[]
  rollout_percentage?: number | null
  variant?: string | null
  aggregation_group_type_index?: number | null
}

export interface PropertyFilter {
  type?: string | null
  key: string
  operator?: string | null
  value?: unknown
}

export interface Variant {
  key: string
  name?: string
  rollout_percentage: number
}

/** Every operator for properties, with the words of a sentence. */
export const OPERATORS: Record<string, string> = {
  exact: 'is', is_not: 'is not', is_set: 'is set', is_not_set: 'is not set', icontains: 'contains', not_icontains: 'does not contain',
  icontains_multi: 'contains one of', not_icontains_multi: 'contains none of', starts_with: 'starts with', not_starts_with: 'does not start with',
  ends_with: 'ends with', not_ends_with: 'does not end with', regex: 'matches', not_regex: 'does not match', gt: '>', gte: '≥', lt: '<', lte: '≤',
  between: 'is between', not_between: 'is not between', is_date_exact: 'is on', is_date_before: 'is before', is_date_after: 'is after',
  semver_eq: 'is version', semver_neq: 'is not version', semver_gt: 'is after version', semver_gte: 'is at least version', semver_lt: 'is before version',
  semver_lte: 'is at most version', semver_tilde: 'is a patch of version', semver_caret: 'is compatible with version', semver_wildcard: 'is a version like'
}

export const WITHOUT_VALUE = new Set(['is_set', 'is_not_set'])

/** `plan is "pro" or "team"`. */
export function describeFilter ({ type, key, operator, value }: PropertyFilter): string {
  if (type === 'cohort') return `${operator === 'not_in' ? 'not in' : 'in'} cohort ${cohortText(value)}`
  if (type === 'flag') {
    return value === true ? `flag ${key} is on` : value === false ? `flag ${key} is off` : `flag ${key} is ${valueText(value)}`
  }
  const name = operator ?? 'exact'
  const words = `${key} ${OPERATORS[name] ?? name}`
  return WITHOUT_VALUE.has(name) ? words : `${words} ${valueText(value)}`
}

/** `70 % of persons where plan is "pro": variant test`. */
export function describeCondition (condition: Condition): string {
  const { properties = [], rollout_percentage: percentage, variant } = condition
  const groupType = condition.aggregation_group_type_index
  const of = groupType == null ? 'persons' : `groups of type ${groupType}`
  const all = groupType == null ? 'everyone' : `all ${of}`
  const who = properties.length === 0 ? all : `${of} where ${properties.map(describeFilter).join(' and ')}`
  const isWhole = percentage == null || percentage === 100
  const share = isWhole ? who.charAt(0).toUpperCase() + who.slice(1) : `${percentage} % of ${who}`
  return variant == null ? share : `${share}: variant ${variant}`
}

export function describeRollout ({ groups = [], multivariate }: FlagFilters): string {
  const variants = multivariate?.variants ?? []
  const suffix = variants.length === 0 ? '' : `, ${formatCounted(variants.length, 'variant')}`
  const [first, ...others] = groups
  if (first === undefined) return 'nobody'
  if (others.length === 0) return describeCondition(first) + suffix
  return `${groups.length} conditions${suffix}`
}

/** By name; by id while the name is not known, or when there is no such cohort. */
function cohortText (value: unknown): string {
  if (Array.isArray(value)) return value.map(cohortText).join(' or ')
  const name = cohortNames.value.get(String(value))
  return name === undefined ? valueText(value) : JSON.stringify(name)
}

function valueText (value: unknown): string {
  if (Array.isArray(value)) return value.map((each) => JSON.stringify(each)).join(' or ')
  return JSON.stringify(value) ?? 'nothing'
}

/** One variant for everybody: no condition is left, and no other variant has a share. */
export function giveToEverybody (filters: FlagFilters, winner: string): FlagFilters {
  const variants = filters.multivariate?.variants ?? []
  if (variants.every(({ key }) => key !== winner)) return filters
  const shares = variants.map((variant) => ({ ...variant, rollout_percentage: variant.key === winner ? 100 : 0 }))
  const groups = [{ properties: [], rollout_percentage: 100 }]
  return { ...filters, groups, multivariate: { ...filters.multivariate, variants: shares } }
}

/**
 * What stands in a text field for a value: text as it is, anything else as JSON. Text that would be read as JSON is
 * quoted, so that writing and reading give the same.
 */
export function writeValue (value: unknown, read = readValue): string {
  return typeof value === 'string' && read(value) === value ? value : JSON.stringify(value) ?? ''
}

/** The same for a value of a condition, which compares text: a number not as JavaScript writes it (`1.10`) is text. */
export function readValue (text: string): unknown {
  try {
    return JSON.parse(text, (key, value: unknown, context?: { source?: string }) => {
      const source = context?.source ?? (key === '' ? text.trim() : String(value))
      return typeof value !== 'number' || (source === String(value) && !isRounded(value)) ? value : source
    })
  } catch {
    return text
  }
}

const isRounded = (value: number): boolean => Number.isInteger(value) && !Number.isSafeInteger(value)

/** Another list, with one element changed; null removes it. */
export function replaceAt<T> (list: readonly T[], index: number, next: T | null): T[] {
  return list.flatMap((each, at) => at !== index ? [each] : next === null ? [] : [next])
}
