/** Why a flag has its value, in the words of the protocol; the order of the list is the priority, highest first. */
const REASONS = [
  'super_condition_value',
  'holdout_condition_value',
  'condition_match',
  'out_of_rollout_bound',
  'no_condition_match',
  'no_group_type',
  'flag_disabled',
  'missing_dependency'
] as const

export type Reason = (typeof REASONS)[number]

/** Why a flag could not be computed. */
export type Failure = 'database_error' | 'malformed_filters' | 'dependency_cycle' | 'dependency_failed'

/** Of the reasons seen while conditions are tried the highest is reported; of equals the later. */
export function outranks (next: Reason, current: Reason): boolean {
  return REASONS.indexOf(next) <= REASONS.indexOf(current)
}

/** A sentence for people; SDKs show it as it is. */
export function describeReason (reason: Reason | Failure, conditionIndex: number | null): string {
  return reason === 'condition_match' ? `Matched condition set ${(conditionIndex ?? 0) + 1}` : DESCRIPTIONS[reason]
}

const DESCRIPTIONS: Record<Exclude<Reason | Failure, 'condition_match'>, string> = {
  super_condition_value: 'Super condition value',
  holdout_condition_value: 'Holdout condition value',
  out_of_rollout_bound: 'Out of rollout bound',
  no_condition_match: 'No matching condition set',
  no_group_type: 'No group type',
  flag_disabled: 'Feature flag is disabled',
  missing_dependency: 'A flag that this flag depends on does not exist',
  database_error: 'The stored properties could not be read',
  malformed_filters: 'The filters of this flag are malformed',
  dependency_cycle: 'This flag depends on a circle of flags',
  dependency_failed: 'A flag that this flag depends on could not be computed'
}
