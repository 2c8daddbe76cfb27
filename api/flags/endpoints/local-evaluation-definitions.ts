import { fieldsOf, isFields } from '../../../engines/fields.ts'
import type { FlagSet } from '../../../engines/flags/evaluate-flags.ts'
import type { FlagDefinition } from '../../../engines/flags/flag-definition.ts'
import {
  type ParsedCondition, type ParsedFilters, type ParsedProperty, parseFilters
} from '../../../engines/flags/parse-filters.ts'
import { createSpelling, type Json, type Spelling } from './spell-for-sdk.ts'

/** Tells SDKs that a boolean equals its text and nothing else; see `match-text.ts`. */
const PROPERTY_MATCHING_VERSION = 2

/**
 * The definitions of a project for SDKs that evaluate locally. Filters are spelled so that SDKs decide as the server
 * does, or ask it. Flags of which that cannot be said, and those that cannot be computed, are omitted, so that SDKs
 * request them from the server.
 *
 * @param withCohorts  False: cohorts that are simple lists of properties are inlined into the filters instead.
 */
export function describeForSdk (set: FlagSet, withCohorts: boolean): Json {
  const { definitions: { flags, cohorts, groupTypes, projectId, timezone } } = set
  const spelling = createSpelling(timezone)
  const dynamic = new Map(cohorts.filter(({ isStatic }) => !isStatic).map(({ id, filters }) => [id, filters]))
  const expand = (property: Json): Json[] => (withCohorts ? null : expandCohort(property, dynamic)) ?? [property]
  const served = flags.filter((flag, position) =>
    set.flags[position]?.broken === null && isDecidedAlike(flag, set, dynamic))
  const described = {
    flags: served.map((flag) => ({
      ...flag,
      team_id: projectId,
      deleted: false,
      filters: describeFilters(flag, spelling, (property) =>
        expand(property).flatMap((item) => spelling.spell(addChain(item, set))))
    })),
    group_type_mapping: Object.fromEntries(groupTypes),
    property_matching_version: PROPERTY_MATCHING_VERSION
  }
  const describeLeaf = (leaf: Json): Json => spelling.spellOne(addChain(leaf, set))
  if (!withCohorts) return { ...described, cohorts: {} }
  // Those of the spelling last: each describes more of them.
  return { ...described, cohorts: { ...describeCohorts(dynamic, describeLeaf), ...spelling.cohorts } }
}

/**
 * Whether SDKs decide an active flag as the server does. They know nothing of early access, and read the properties and
 * the identifier of each condition from one subject. A flag of groups is false for them without its group, whatever its
 * conditions count by. One that asks for a flag that does not exist is false for the server.
 */
function isDecidedAlike (flag: FlagDefinition, set: FlagSet, cohorts: Cohorts): boolean {
  if (!flag.active) return true
  const filters = parseFilters(flag.filters)
  const { aggregation, conditions, enrollment, superCondition, holdout } = filters
  if (enrollment || (superCondition !== null && superCondition.properties.length > 0)) return false
  if (holdout !== null && !holdout.variant.startsWith('holdout-')) return false
  const canBeMixed = aggregation === null && !filters.earlyExit && filters.variants.length === 0
  return conditions.every((condition) => (canBeMixed || condition.aggregation === aggregation) &&
    condition.properties.every((property) => isOfSubject(property, condition) &&
      leavesOf({ ...property }, cohorts).every(({ type, key }) => type === 'flag'
        ? set.positions.has(String(key))
        : property.type !== 'cohort' || type !== 'group')))
}

/** Whether a filter is about what its condition counts by. Members of cohorts are persons. */
function isOfSubject ({ type, groupTypeIndex }: ParsedProperty, { aggregation }: ParsedCondition): boolean {
  if (type === 'flag') return true
  return aggregation === (type === 'person' || type === 'cohort' ? null : groupTypeIndex ?? aggregation)
}

type Cohorts = ReadonlyMap<number, unknown>

/** The filters that a filter stands for: of a cohort those in its groups, and in the cohorts in it. */
function leavesOf (filter: unknown, cohorts: Cohorts, within: readonly number[] = []): Json[] {
  if (!isFields(filter)) return []
  if (Array.isArray(filter.values)) return filter.values.flatMap((member) => leavesOf(member, cohorts, within))
  if (isFields(filter.properties)) return leavesOf(filter.properties, cohorts, within)
  if (filter.type !== 'cohort') return [filter]
  const id = Number(filter.value)
  return within.includes(id) ? [] : leavesOf(cohorts.get(id), cohorts, [...within, id])
}

/** Whether it can matter which of the conditions matches: by its variant, or as none is tried after it. */
function hasVariousOutcomes ({ conditions, variants, earlyExit }: ParsedFilters): boolean {
  const forced = conditions.map(({ variant }) => variants.some(({ key }) => key === variant) ? variant : null)
  return conditions.length > 1 && (earlyExit || (variants.length > 0 && new Set(forced).size > 1))
}

/**
 * Rewrites the properties of each condition. Filters that are not an object (of inactive flags) stay unchanged.
 *
 * SDKs skip conditions that they cannot evaluate. Where it matters which one matches, later conditions cannot be
 * evaluated then, either.
 */
function describeFilters (flag: FlagDefinition, spelling: Spelling, rewrite: (property: Json) => Json[]): unknown {
  const { filters } = flag
  if (!isFields(filters)) return filters
  const groups = Array.isArray(filters.groups) ? filters.groups : []
  const waits = flag.active && hasVariousOutcomes(parseFilters(filters))
  let earlier: Json[] = []
  return {
    ...filters,
    ...describeHoldout(filters),
    ...describeVariants(filters),
    groups: groups.map((group: unknown) => {
      if (!isFields(group)) return group
      const given = Array.isArray(group.properties) ? group.properties : []
      const own = given.flatMap((item: unknown) => (isFields(item) ? rewrite(item) : []))
      const properties = [...own, ...earlier]
      if (waits && own.length > 0) earlier = [spelling.allTold(properties)]
      return { ...group, properties }
    })
  }
}

/** A variant without a share has none; to SDKs its share is no number. */
function describeVariants ({ multivariate }: Json): Json {
  if (!isFields(multivariate) || !Array.isArray(multivariate.variants)) return {}
  const variants = multivariate.variants.map((variant: unknown) => ({ rollout_percentage: 0, ...fieldsOf(variant) }))
  return { multivariate: { ...multivariate, variants } }
}

/** SDKs know the newer form of a holdout only. */
function describeHoldout ({ holdout, holdout_groups: older }: Json): Json {
  if (holdout != null || !Array.isArray(older) || !isFields(older[0])) return {}
  const { variant, rollout_percentage: percentage } = older[0]
  const id = /^holdout-(.+)$/.exec(String(variant))?.[1]
  return id === undefined ? {} : { holdout: { id, exclusion_percentage: percentage ?? 100 } }
}

/** A property that refers to a flag gets the keys of all flags to compute for it, in order. */
function addChain (property: Json, set: FlagSet): Json {
  if (property.type !== 'flag') return property
  const { key, chain } = readChain(set, String(property.key))
  return { ...property, key, operator: 'flag_evaluates_to', dependency_chain: chain }
}

function describeCohorts (cohorts: Cohorts, describeLeaf: (leaf: Json) => Json): Json {
  const describe = (value: unknown): unknown => {
    if (!isFields(value)) return value
    if (Array.isArray(value.values)) return { ...value, values: value.values.map(describe) }
    return isFields(value.properties) ? describe(value.properties) : describeLeaf(value)
  }
  return Object.fromEntries([...cohorts].map(([id, filters]) => [id, describe(filters)]))
}

/** The properties of a cohort that is a single list of required properties; null for any other cohort. */
function expandCohort (property: Json, cohorts: Cohorts): Json[] | null {
  if (property.type !== 'cohort' || property.operator === 'not_in') return null
  let group = cohorts.get(Number(property.value))
  while (isFields(group) && Array.isArray(group.values) && group.values.length === 1 && isFields(group.values[0]) &&
    Array.isArray(group.values[0].values)) group = group.values[0]
  if (!isFields(group) || !Array.isArray(group.values) || group.values.length === 0) return null
  const isSimple = group.type !== 'OR' || group.values.length === 1
  const leaves = group.values.filter((leaf): leaf is Json =>
    isFields(leaf) && leaf.type !== 'cohort' && leaf.negation !== true && !('values' in leaf))
  return isSimple && leaves.length === group.values.length ? leaves : null
}

/**
 * Lists the flags that SDKs must compute, in order, for a flag that another depends on; that flag is the last. Empty
 * when it is in a dependency cycle: SDKs leave such flags to the server.
 *
 * @param reference  Key or id of the flag, as given in the filter.
 */
function readChain (set: FlagSet, reference: string): { key: string, chain: string[] } {
  const { flags } = set.definitions
  const position = set.positions.get(reference)
  if (position === undefined) return { key: reference, chain: [reference] }
  const key = flags[position]!.key
  if (set.flags[position]!.broken === 'dependency_cycle') return { key, chain: [] }
  const chain = new Set<string>()
  const visited = new Set<number>()
  const visit = (at: number): void => {
    if (visited.has(at)) return
    visited.add(at)
    for (const next of set.flags[at]!.dependencies) visit(next)
    chain.add(flags[at]!.key)
  }
  visit(position)
  return { key, chain: [...chain] }
}
