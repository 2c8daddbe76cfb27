import { isFields } from '../../../engines/fields.ts'
import type { FlagSet } from '../../../engines/flags/evaluate-flags.ts'
import type { FlagDefinition } from '../../../engines/flags/flag-definition.ts'
import { type ParsedCondition, type ParsedProperty, parseFilters } from '../../../engines/flags/parse-filters.ts'

type Json = Record<string, unknown>

/** Tells SDKs that a boolean equals its text and nothing else; see `match-text.ts`. */
const PROPERTY_MATCHING_VERSION = 2

/**
 * The definitions of a project for SDKs that evaluate locally. Flags with malformed filters, and those that SDKs would
 * decide otherwise, are omitted, so that SDKs request them from the server, which answers the former as failed.
 *
 * @param withCohorts  False: cohorts that are simple lists of properties are inlined into the filters instead.
 */
export function describeForSdk (set: FlagSet, withCohorts: boolean): Json {
  const { definitions: { flags, cohorts, groupTypes, projectId } } = set
  const dynamic = new Map(cohorts.filter(({ isStatic }) => !isStatic).map(({ id, filters }) => [id, filters]))
  const expand = (property: Json): Json[] => (withCohorts ? null : expandCohort(property, dynamic)) ?? [property]
  return {
    flags: flags.filter((flag) => !set.malformed.has(flag.key) && isDecidedAlike(flag)).map((flag) => ({
      id: flag.id,
      team_id: projectId,
      name: flag.name,
      key: flag.key,
      filters: describeFilters(flag.filters, (property) => expand(property).map((item) => addChain(item, set))),
      deleted: false,
      active: flag.active,
      ensure_experience_continuity: flag.ensureExperienceContinuity,
      version: flag.version,
      evaluation_runtime: flag.evaluationRuntime,
      bucketing_identifier: flag.bucketingIdentifier,
      has_experiment: flag.hasExperiment
    })),
    group_type_mapping: Object.fromEntries(groupTypes),
    cohorts: withCohorts ? describeCohorts(dynamic, set) : {},
    property_matching_version: PROPERTY_MATCHING_VERSION
  }
}

/**
 * Whether SDKs decide an active flag as the server does. They know nothing of early access, and read the properties and
 * the identifier of each condition from one subject. A flag of groups is false for them without its group, whatever its
 * conditions count by.
 */
function isDecidedAlike ({ active, filters }: FlagDefinition): boolean {
  if (!active) return true
  const { aggregation, conditions, enrollment, superCondition } = parseFilters(filters)
  if (enrollment || (superCondition !== null && superCondition.properties.length > 0)) return false
  return conditions.every((condition) => (aggregation === null || condition.aggregation === aggregation) &&
    condition.properties.every((property) => isOfSubject(property, condition)))
}

/** Whether a filter is about what its condition counts by. Members of cohorts are persons. */
function isOfSubject ({ type, groupTypeIndex }: ParsedProperty, { aggregation }: ParsedCondition): boolean {
  if (type === 'flag') return true
  return aggregation === (type === 'person' || type === 'cohort' ? null : groupTypeIndex ?? aggregation)
}

/** Rewrites the properties of each condition. Filters that are not an object (of inactive flags) stay unchanged. */
function describeFilters (filters: unknown, rewrite: (property: Json) => Json[]): unknown {
  if (!isFields(filters)) return filters
  const groups = Array.isArray(filters.groups) ? filters.groups : []
  return {
    ...filters,
    ...describeHoldout(filters),
    groups: groups.map((group: unknown) => {
      if (!isFields(group) || !Array.isArray(group.properties)) return group
      const properties = group.properties.flatMap((item: unknown) => (isFields(item) ? rewrite(item) : [item]))
      return { ...group, properties }
    })
  }
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

function describeCohorts (cohorts: ReadonlyMap<number, unknown>, set: FlagSet): Json {
  const describe = (value: unknown): unknown => {
    if (!isFields(value)) return value
    if (Array.isArray(value.values)) return { ...value, values: value.values.map(describe) }
    return isFields(value.properties) ? describe(value.properties) : addChain(value, set)
  }
  return Object.fromEntries([...cohorts].map(([id, filters]) => [id, describe(filters)]))
}

/** The properties of a cohort that is a single list of required properties; null for any other cohort. */
function expandCohort (property: Json, cohorts: ReadonlyMap<number, unknown>): Json[] | null {
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
  const visit = (at: number): void => {
    for (const next of set.flags[at]!.dependencies) visit(next)
    chain.add(flags[at]!.key)
  }
  visit(position)
  return { key, chain: [...chain] }
}
