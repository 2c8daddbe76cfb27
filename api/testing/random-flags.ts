import { pickOne, type Random } from '../../test/support/random.ts'
import type { TestFlag } from './create-test-decide.ts'

type Json = Record<string, any>

/** A user whose flags are evaluated. */
export interface RandomUser {
  distinctId: string
  personProperties: Json
  groups: Record<string, string>
  groupProperties: Record<string, Json>
}

const PLANS = ['free', 'Pro', 'team', 'ENTERPRISE']
const VERSIONS = ['1.2.3', 'v2.0.0', '1.10', '2.0.0-beta', '3.08.1', '0.2.9', '0.0.4', 'abc', '1.2.3.4', '2.5.0+7']
const DATES = ['2024-01-31', '2026-03-01T10:00:00Z', '2025-06-15', '2026-11-20', '2023-02-28T23:59:59.500Z', 'soon', null]
const NUMBERS = [0, 1, 17.5, '18', 42, '99.5', -3, null, '12 apples', 'many']

/** A property: what users have of it, and what filters ask of it. */
export interface RandomProperty {
  key: string
  value: (random: Random) => unknown
  filter: (random: Random) => { operator: string, value: unknown }
}

/** Properties, each with the values that users have and the operators and values of filters. */
const VALUES: Array<{ key: string, values: unknown[], filters: Array<[string, unknown[]]> }> = [
  {
    key: 'plan',
    values: [...PLANS, true, 2.5, null, ['free', 'pro'], { tier: 'pro' }],
    filters: [
      ['exact', ['pro', ['Free', 'team'], 'enterprise', true, 'TRUE', 2.5, [], { tier: 'pro' }]],
      ['is_not', ['pro', ['free', 'TEAM'], false, null]],
      ['is_set', [null]],
      ['is_not_set', [null]]
    ]
  },
  {
    key: 'email',
    values: ['ann@example.com', 'BOB@Example.org', 'eve@test.io', 'x', 17.5, true, null],
    filters: [
      ['icontains', ['@EXAMPLE', 'test', 'e', 'null']],
      ['not_icontains', ['example', '@']],
      ['starts_with', ['ANN', 'b', '17']],
      ['not_starts_with', ['bob', 'x']],
      ['ends_with', ['.COM', 'io']],
      ['not_ends_with', ['.org', 'e']],
      ['regex', ['^[a-z]+@example', '@(example|test)\\.(com|io)$', '[A-Z]{3}', '\\d+', '(', '^x?$']],
      ['not_regex', ['example', '^\\w+@', '[']]
    ]
  },
  {
    key: 'age',
    values: NUMBERS,
    filters: [['gt', [17, '18', 0]], ['gte', [18, '99.5']], ['lt', [42, '1']], ['lte', [0, -3, 17.5]]]
  },
  {
    key: 'joined',
    values: DATES,
    filters: [
      ['is_date_before', ['2025-06-15', '-30d', '2w', '-1y', '2026-03-01T09:59:59Z', '-18m']],
      ['is_date_after', ['2024-01-31', '-400d', '-2y', '5000h', '2025-06-15T00:00:00.000Z']]
    ]
  },
  {
    key: 'version',
    values: VERSIONS,
    filters: [
      ['semver_eq', ['1.2.3', '2.0']], ['semver_neq', ['1.2.3', 'v2']], ['semver_gt', ['1.2', '2.0.0-rc']],
      ['semver_gte', ['1.10.0']], ['semver_lt', ['2', '1.9.9']], ['semver_lte', ['0.2.9']],
      ['semver_tilde', ['1.2.0', '0.2.1']], ['semver_caret', ['1.2.0', '0.2.1', '0.0.4']],
      ['semver_wildcard', ['1.*', '1.2.*', '2.*']]
    ]
  }
]

const PROPERTIES: readonly RandomProperty[] = VALUES.map(({ key, values, filters }) => ({
  key,
  value: (random) => pickOne(values, random),
  filter (random) {
    const [operator, values] = pickOne(filters, random)
    return { operator, value: pickOne(values, random) }
  }
}))

/** Operators that the SDK leaves to the server. */
const SERVER_ONLY: Array<[string, string, unknown]> = [
  ['age', 'between', [1, 20]], ['age', 'not_between', [1, 20]], ['email', 'icontains_multi', ['ann', 'bob']],
  ['joined', 'is_date_exact', '2025-06-15']
]

const VARIANT_KEYS = ['control', 'test', 'other']

/** Group types by index. */
export const GROUP_TYPES = ['company', 'team']

/** @param flags  Keys of flags, for some of which the user opted in or out. */
export function buildRandomUser (
  random: Random, index: number, flags: readonly string[], properties = PROPERTIES
): RandomUser {
  const someOf = (share: number): Json => Object.fromEntries(properties
    .filter(() => random() < share)
    .map(({ key, value }) => [key, value(random)]))
  const enrolled = flags.filter(() => random() < 0.3).map((key) => [`$feature_enrollment/${key}`, pickOne(['true', 'false', true, false], random)])
  const groupTypes = GROUP_TYPES.filter(() => random() < 0.6)
  return {
    distinctId: `user-${index}`,
    personProperties: { ...someOf(0.85), ...Object.fromEntries(enrolled), ...(random() < 0.5 ? { $device_id: `device-${index}` } : {}) },
    groups: Object.fromEntries(groupTypes.map((type) => [type, `${type}-${Math.floor(random() * 20)}`])),
    groupProperties: Object.fromEntries(groupTypes.map((type) => [type, someOf(0.85)]))
  }
}

/** Property groups of dynamic cohorts. */
export function buildRandomCohort (random: Random, properties = PROPERTIES): Json {
  const leaf = (): Json => ({
    ...buildProperty(random, null, properties), ...(random() < 0.25 ? { negation: true } : {})
  })
  const inner = (): Json => ({ type: pickOne(['AND', 'OR'], random), values: [leaf(), ...(random() < 0.5 ? [leaf()] : [])] })
  return { type: pickOne(['AND', 'OR'], random), values: random() < 0.5 ? [inner(), inner()] : [leaf(), leaf()] }
}

/** What a flag may ask for. */
interface Others {
  earlier: readonly TestFlag[]
  cohortIds: readonly number[]
  properties?: readonly RandomProperty[]
}

/** One flag of a row of them, with every field of the reference that decides a value. */
export function buildRandomFlag (random: Random, index: number, others: Others): TestFlag {
  const key = `flag-${index}`
  const isServerOnly = random() < 0.04
  const ofFlag = !isServerOnly && random() < 0.2 ? pickOne([0, 1], random) : undefined
  const variants = random() < 0.4 ? pickOne([[50, 50], [33, 33, 34], [20, 30], [0, 100]], random) : []
  const buildCondition = (): Json => {
    const aggregation = random() < 0.12 ? pickOne([0, 1, null], random) : undefined
    const groupType = aggregation === undefined ? ofFlag ?? null : aggregation
    return {
      properties: Array.from({ length: Math.floor(random() * 3.5) }, () => buildFilter(random, groupType, others)),
      ...(random() < 0.2 ? {} : { rollout_percentage: pickOne([0, 10, 33.3, 50, 75, 100, 100, 100, null], random) }),
      ...(random() < 0.2 ? { variant: pickOne([...VARIANT_KEYS, null], random) } : {}),
      ...(aggregation === undefined ? {} : { aggregation_group_type_index: aggregation })
    }
  }
  const [serverKey, serverOperator, serverValue] = pickOne(SERVER_ONLY, random)
  const groups = isServerOnly
    ? [{ properties: [{ key: serverKey, operator: serverOperator, value: serverValue, type: 'person' }] }]
    : Array.from({ length: 1 + Math.floor(random() * 3) }, buildCondition)
  return {
    key,
    active: random() > 0.03,
    ensure_experience_continuity: random() < 0.03,
    evaluation_runtime: pickOne(['all', 'all', 'server', 'client'], random),
    ...(random() < 0.05 ? { bucketing_identifier: 'device_id' } : {}),
    filters: {
      groups,
      ...(variants.length > 0 ? { multivariate: { variants: variants.map(asVariant) } } : {}),
      ...(ofFlag === undefined ? {} : { aggregation_group_type_index: ofFlag }),
      ...(random() < 0.3 ? { payloads: { true: '{"on":1}', control: '"c"', test: '[1,2]' } } : {}),
      ...(random() < 0.08 ? { early_exit: true } : {}),
      ...buildHoldout(random),
      ...buildEarlyAccess(random, key)
    }
  }
}

function buildHoldout (random: Random): Json {
  const share = pickOne([0, 20, 100], random)
  const at = random()
  if (at < 0.06) return { holdout: { id: 3, exclusion_percentage: share } }
  return at < 0.1 ? { holdout_groups: [{ properties: [], rollout_percentage: share, variant: 'holdout-4' }] } : {}
}

function buildEarlyAccess (random: Random, key: string): Json {
  const optedIn = { key: `$feature_enrollment/${key}`, value: ['true'], operator: 'exact', type: 'person' }
  const at = random()
  if (at < 0.05) return { feature_enrollment: true }
  if (at < 0.08) return { super_groups: [{ properties: [optedIn], rollout_percentage: 100 }] }
  return at < 0.1 ? { feature_enrollment: false, super_groups: [] } : {}
}

/** A filter of a condition, mostly about what the condition counts by. */
function buildFilter (random: Random, groupType: number | null, others: Others): Json {
  const { earlier, cohortIds, properties } = others
  if (earlier.length > 0 && random() < 0.12) return buildDependency(random, earlier)
  if (random() < (groupType === null ? 0.12 : 0.03)) {
    return { key: 'id', type: 'cohort', value: pickOne(cohortIds, random), operator: pickOne(['in', 'in', 'not_in'], random) }
  }
  const owner = random() < 0.04 ? pickOne([null, 0, 1], random) : groupType
  return buildProperty(random, owner, properties)
}

function asVariant (percentage: number, index: number): Json {
  return { key: VARIANT_KEYS[index], name: '', rollout_percentage: percentage }
}

function buildProperty (random: Random, groupType: number | null, properties = PROPERTIES): Json {
  const { key, filter } = pickOne(properties, random)
  return {
    key,
    ...filter(random),
    ...(groupType === null ? { type: 'person' } : { type: 'group', group_type_index: groupType })
  }
}

function buildDependency (random: Random, earlier: readonly TestFlag[]): Json {
  // What the SDK leaves to the server may not decide what it computes itself.
  const target = pickOne(earlier.filter((flag) => flag.ensure_experience_continuity !== true), random)
  return {
    key: target.key, type: 'flag', operator: 'flag_evaluates_to', value: pickOne([true, true, false, 'control'], random)
  }
}
