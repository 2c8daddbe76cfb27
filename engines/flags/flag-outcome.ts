import type { FlagDefinition } from './flag-definition.ts'

/** Why a flag has its value, as SDKs know the codes. The order is the priority, highest first. */
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
 * The result of one flag. A flag has few possible outcomes, so each exists once and is shared by all requests: its
 * JSON is rendered once, and counting an evaluation is adding to one number.
 */
export interface Outcome {
  key: string
  enabled: boolean
  /** Key of the variant; null for a plain true or false. */
  variant: string | null
  /** The variant if there is one, else true or false. */
  value: boolean | string
  reason: Reason | Failure
  conditionIndex: number | null
  /** The value could not be computed; `value` is false then, and clients keep the value they had. */
  failed: boolean
  /** As stored in the filters: a string (usually JSON) or any other JSON; undefined without a payload. */
  payload: unknown
  /** `"key":{...}` and a comma: a member of the `flags` object of `/flags` version 2, in UTF-8. */
  detail: Buffer
  /** Counts the evaluations with this value. */
  counter: EvaluationCounter
}

/** A counter shared by the outcomes of equal value, and by all versions of a flag. */
export interface EvaluationCounter {
  count: number
}

/** Returns the counter of a flag's value: `true`, `false`, `failed` or the key of a variant. */
export type FindCounter = (flagKey: string, value: string) => EvaluationCounter

export type OutcomeParts =
  Pick<Outcome, 'enabled' | 'reason'> & Partial<Pick<Outcome, 'variant' | 'conditionIndex' | 'failed' | 'payload'>>

/** Assembles an outcome and renders its JSON. */
export function buildOutcome (flag: FlagDefinition, parts: OutcomeParts, findCounter: FindCounter): Outcome {
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
      has_experiment: flag.has_experiment
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
    detail: Buffer.from(`${JSON.stringify(flag.key)}:${JSON.stringify(detail)},`),
    counter: findCounter(flag.key, failed ? 'failed' : String(value))
  }
}

/** `/flags` version 2 sends payloads as JSON text; a payload stored as a string is JSON text already. */
function payloadText (payload: unknown): string {
  return typeof payload === 'string' ? payload : JSON.stringify(payload)
}

/** When no condition matches, the reason with the highest priority is reported; among equals the last. */
export function outranks (next: Reason, current: Reason): boolean {
  return REASONS.indexOf(next) <= REASONS.indexOf(current)
}

/** A sentence for people, which SDKs show unchanged. */
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
  dependency_cycle: 'The dependencies of this flag form a cycle',
  dependency_failed: 'A flag that this flag depends on could not be computed'
}
