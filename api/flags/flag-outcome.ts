import { describeReason, type Failure, type Reason } from './flag-reason.ts'
import { type FlagDefinition } from './flag-definition.ts'

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
