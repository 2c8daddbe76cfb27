import { type FlagDefinition } from './flag-definition.ts'

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

/**
 * What one flag came to for one subject. A flag has few outcomes, so each exists once and is shared by all requests:
 * its JSON is rendered once, and counting evaluations is adding to one number.
 */
export interface Outcome {
  key: string
  enabled: boolean
  /** Key of the variant; null for a plain true or false. */
  variant: string | null
  /** What flag maps carry: the variant, else true or false. */
  value: boolean | string
  reason: Reason | Failure
  conditionIndex: number | null
  /** Set when the value could not be computed; `value` is false then and clients keep what they had. */
  failed: boolean
  /** As it stands in the filters: a text (usually JSON) or any other JSON; undefined when there is none. */
  payload: unknown
  /** `"key":{...}`, a member of the `flags` object of the newer answers. */
  detailJson: string
  /** Evaluations so far that came to this value. */
  tally: Tally
}

/** A counter shared by the outcomes of equal value, and by the versions of a flag. */
export interface Tally {
  count: number
}

/** Gives out the counter of a flag's value; values are `true`, `false`, `failed` or the key of a variant. */
export type FindTally = (flagKey: string, value: string) => Tally

export interface OutcomeParts {
  enabled: boolean
  variant?: string | null
  reason: Reason | Failure
  conditionIndex?: number | null
  failed?: boolean
  payload?: unknown
}

/** Assembles an outcome and renders its JSON. */
export function buildOutcome (flag: FlagDefinition, parts: OutcomeParts, findTally: FindTally): Outcome {
  const { enabled, reason, variant = null, conditionIndex = null, failed = false } = parts
  const payload = enabled ? parts.payload : undefined
  const value = enabled && variant !== null ? variant : enabled
  const detail = {
    key: flag.key,
    enabled,
    variant: enabled ? variant : null,
    ...(failed ? { failed } : {}),
    reason: { code: reason, condition_index: conditionIndex, description: describeReason(reason, conditionIndex) },
    metadata: {
      id: flag.id,
      version: flag.version,
      description: null,
      ...(payload === undefined ? {} : { payload: payloadText(payload) }),
      has_experiment: flag.hasExperiment
    }
  }
  return {
    key: flag.key,
    enabled,
    variant: detail.variant,
    value,
    reason,
    conditionIndex,
    failed,
    payload,
    detailJson: `${JSON.stringify(flag.key)}:${JSON.stringify(detail)}`,
    tally: findTally(flag.key, failed ? 'failed' : String(value))
  }
}

/** The newer answers carry payloads as JSON text; what was stored as text is that already. */
function payloadText (payload: unknown): string {
  return typeof payload === 'string' ? payload : JSON.stringify(payload)
}

/** Of the reasons seen while conditions are tried the highest is reported; of equals the later. */
export function outranks (next: Reason, current: Reason): boolean {
  return REASONS.indexOf(next) <= REASONS.indexOf(current)
}

/** A sentence for people; SDKs show it as it is. */
function describeReason (reason: Reason | Failure, conditionIndex: number | null): string {
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
