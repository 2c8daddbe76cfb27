import { allOf, compileFilter, type FilterContext, NO, UNSURE } from './compile-filter.ts'
import type { FlagDefinition } from './flag-definition.ts'
import type { Outcome, Reason } from './flag-outcome.ts'
import { compileHash, compileIdentify, isIdentified, NO_DEVICE, NO_GROUP, UNREAD_IDENTIFIER } from './rollout-hash.ts'
import type { ParsedCondition, ParsedVariant } from './parse-filters.ts'
import type { Subject } from './subject.ts'

/** Tries a condition: returns the outcome on a match, else the reason, or undefined when it needs stored facts. */
export type Condition = (subject: Subject) => Outcome | ConditionMiss | undefined

export type ConditionMiss = Extract<Reason, 'no_group_type' | 'no_condition_match' | 'out_of_rollout_bound'>

export interface ConditionOutcomes {
  /** For a match without a variant. */
  plain: Outcome
  /** In order of the flag's variants. */
  byVariant: readonly Outcome[]
}

/**
 * Compiles one condition set: the identifier (person, device or group), the property filters, the rollout, and the
 * variant. Nothing is hashed unless the answer depends on it.
 *
 * @throws {MalformedFlagError}
 */
export function compileCondition (
  flag: FlagDefinition, condition: ParsedCondition, variants: readonly ParsedVariant[],
  { outcomes, context }: { outcomes: ConditionOutcomes, context: FilterContext }
): Condition {
  const { aggregation, rolloutPercentage } = condition
  const matches = allOf(condition.properties.map((property) => compileFilter(property, aggregation, context)))
  const identify = compileIdentify(flag, aggregation)
  const rollout = rolloutPercentage / 100
  const hash = compileHash(flag.key)
  // With 0 % nothing but an empty identifier is in (one of 10^18 others would be).
  const place = rolloutPercentage <= 0
    ? (identifier: string) => identifier === '' ? 0 : 1
    : (identifier: string) => hash(identifier, '')
  const forced = variants.findIndex(({ key }) => key === condition.variant)
  const choose = chooseOutcome(variants, forced, outcomes)
  const needsHash = rolloutPercentage !== 100 || typeof choose === 'function'

  return (subject) => {
    if (!isIdentified(subject, flag, aggregation)) {
      return aggregation === null ? 'out_of_rollout_bound' : 'no_group_type'
    }
    const truth = matches(subject)
    if (truth === UNSURE) return undefined
    if (truth === NO) return 'no_condition_match'
    if (!needsHash) return choose as Outcome

    const identifier = identify(subject)
    if (identifier === UNREAD_IDENTIFIER) return undefined
    if (identifier === NO_GROUP || identifier === NO_DEVICE) return 'out_of_rollout_bound'
    if (rolloutPercentage !== 100 && place(identifier) > rollout) return 'out_of_rollout_bound'
    return typeof choose === 'function' ? choose(hash(identifier, 'variant')) : choose
  }
}

/** Whether the outcome of a condition can depend on the hash. */
export function needsHash (condition: ParsedCondition, variants: readonly ParsedVariant[]): boolean {
  if (condition.rolloutPercentage !== 100) return true
  return variants.length > 0 && !variants.some(({ key }) => key === condition.variant)
}

/** The outcome itself when it is the same for everyone who matches, else a function of the variant hash. */
function chooseOutcome (
  variants: readonly ParsedVariant[], forced: number, { plain, byVariant }: ConditionOutcomes
): Outcome | ((hash: number) => Outcome) {
  if (forced !== -1) return byVariant[forced]!
  if (variants.length === 0) return plain
  let sum = 0
  const ends = variants.map(({ rolloutPercentage }) => (sum += rolloutPercentage / 100))
  return (hash) => {
    for (let i = 0; i < ends.length; i++) {
      if (hash < ends[i]!) return byVariant[i]!
    }
    // The percentages of the variants sum to less than 100: for the rest the flag is on without a variant.
    return plain
  }
}
