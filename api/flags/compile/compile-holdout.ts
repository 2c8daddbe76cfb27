import { type MakeOutcome } from './compile-flag.ts'
import { type FlagDefinition } from '../flag-definition.ts'
import { type Outcome } from '../flag-outcome.ts'
import { hashForHoldout } from '../hash/hash-identifier.ts'
import { compileIdentify } from '../hash/identifier.ts'
import { type ParsedFilters } from '../parse/parse-filters.ts'
import { type Subject } from '../subject.ts'

/**
 * A step before the condition sets: an outcome decides, null lets the next step decide, `unsure` needs stored facts.
 */
export type EarlyStep = (subject: Subject) => Outcome | 'unsure' | null

/**
 * Compiles the holdout: a share of all identifiers, the same for every flag, sees none of a set of experiments.
 *
 * Stored identifiers of experience continuity are not used here, so that the same people are held out of every flag.
 *
 * @returns null when the flag has none.
 */
export function compileHoldout (flag: FlagDefinition, filters: ParsedFilters, make: MakeOutcome): EarlyStep | null {
  const { holdout } = filters
  if (holdout === null) return null
  const held = make({
    enabled: true,
    variant: holdout.variant,
    reason: 'holdout_condition_value',
    payload: filters.payloads[holdout.variant]
  })
  const share = Math.min(Math.max(holdout.percentage, 0), 100) / 100
  const identify = compileIdentify({ ...flag, ensureExperienceContinuity: false }, filters.aggregation)
  return (subject) => {
    const identifier = flag.ensureExperienceContinuity && filters.aggregation === null
      ? subject.anonDistinctId ?? subject.distinctId
      : identify(subject)
    if (typeof identifier !== 'string') return null
    return share === 1 || hashForHoldout(identifier) <= share ? held : null
  }
}
