import { compileCondition, type Condition, needsHash } from './compile-condition.ts'
import type { FilterContext } from './compile-filter.ts'
import type { FlagDefinition } from './flag-definition.ts'
import { buildOutcome, type Failure, type FindCounter, type Outcome, type OutcomeParts, outranks, type Reason } from './flag-outcome.ts'
import { type ParsedFilters, parseFilters } from './parse-filters.ts'
import { ABSENT, compilePersonLookup, type PropertyLookup, type Subject, UNREAD } from './subject.ts'
import { compileIdentify, hashForHoldout } from './rollout-hash.ts'

/** A flag that is ready to be evaluated. */
export interface CompiledFlag {
  definition: FlagDefinition
  /** Outcome for a subject; undefined when it depends on stored facts that are not read. Never throws. */
  evaluate: (subject: Subject) => Outcome | undefined
  /** The outcome to answer when the flag cannot be computed. */
  fail: (failure: Failure) => Outcome
  /** Why the flag can never be computed; null when it can. */
  broken: Failure | null
  /** Positions of the flags that it depends on. */
  dependencies: ReadonlySet<number>
  /** Active, with experience continuity, and its value depends on the hash of a person. */
  isSticky: boolean
}

/** Builds an outcome of the flag. */
type MakeOutcome = (parts: OutcomeParts) => Outcome

/**
 * A step before the condition sets: returns an outcome, null to leave the decision to the next step, or `unsure` when
 * stored facts are needed.
 */
type EarlyStep = (subject: Subject) => Outcome | 'unsure' | null

/**
 * Compiles a flag into functions that run for each request. In order: early access, the holdout, then the condition
 * sets, of which the first that matches decides.
 *
 * @throws {MalformedFlagError} when the filters of an active flag cannot be read.
 */
export function compileFlag (
  definition: FlagDefinition, context: FilterContext, findCounter: FindCounter
): CompiledFlag {
  const make: MakeOutcome = (parts) => buildOutcome(definition, parts, findCounter)
  const base = { definition, fail: createFail(make), broken: null, dependencies: context.dependencies }
  if (!definition.active) {
    const disabled = make({ enabled: false, reason: 'flag_disabled' })
    return { ...base, evaluate: () => disabled, isSticky: false }
  }
  const filters = parseFilters(definition.filters)
  const evaluate = compileFilters(definition, filters, { make, context })
  const isSticky = definition.ensure_experience_continuity &&
    filters.conditions.some((condition) => condition.aggregation === null && needsHash(condition, filters.variants))
  if (context.missingFlags.length > 0) {
    const missing = make({ enabled: false, reason: 'missing_dependency' })
    return { ...base, evaluate: () => missing, isSticky: false }
  }
  return { ...base, evaluate, isSticky }
}

/** A flag that can never be computed: every request gets it as failed. */
export function compileBrokenFlag (
  definition: FlagDefinition, failure: Failure, findCounter: FindCounter
): CompiledFlag {
  const fail = createFail((parts) => buildOutcome(definition, parts, findCounter))
  const outcome = fail(failure)
  return { definition, evaluate: () => outcome, fail, broken: failure, dependencies: new Set(), isSticky: false }
}

/** Failed outcomes are rare, so each is built when it is first needed. */
function createFail (make: MakeOutcome): CompiledFlag['fail'] {
  const outcomes = new Map<Failure, Outcome>()
  return (failure) => {
    const outcome = outcomes.get(failure) ?? make({ enabled: false, failed: true, reason: failure })
    outcomes.set(failure, outcome)
    return outcome
  }
}

function compileFilters (
  flag: FlagDefinition, filters: ParsedFilters, { make, context }: { make: MakeOutcome, context: FilterContext }
): CompiledFlag['evaluate'] {
  const optIn = compileOptIn(flag, filters, { make, context })
  const holdout = compileHoldout(flag, filters, make)
  const conditions = filters.conditions.map((condition, conditionIndex) => {
    const match = (variant: string | null): Outcome => make({
      enabled: true, variant, reason: 'condition_match', conditionIndex, payload: filters.payloads.get(variant ?? 'true')
    })
    const outcomes = { plain: match(null), byVariant: filters.variants.map(({ key }) => match(key)) }
    return compileCondition(flag, condition, filters.variants, { outcomes, context })
  })
  const tryConditions = compileFirstMatch(conditions, filters.earlyExit, make)
  if (optIn === null && holdout === null) return tryConditions
  return (subject) => {
    const decided = optIn?.(subject) ?? holdout?.(subject) ?? null
    return decided === null ? tryConditions(subject) : decided === 'unsure' ? undefined : decided
  }
}

/**
 * Compiles early access: persons who opted in or out get that answer before anything else. Today's flags use
 * `feature_enrollment`, older ones `super_groups`; both read person properties, even in flags for groups.
 *
 * @returns null when the flag has no early access.
 */
function compileOptIn (
  flag: FlagDefinition, filters: ParsedFilters, { make, context }: { make: MakeOutcome, context: FilterContext }
): EarlyStep | null {
  const conditionIndex = 0
  const on = make({
    enabled: true, reason: 'super_condition_value', conditionIndex, payload: filters.payloads.get('true')
  })
  const off = make({ enabled: false, reason: 'super_condition_value', conditionIndex })
  if (filters.enrollment) {
    const lookup = compilePersonLookup(`$feature_enrollment/${flag.key}`)
    return (subject) => {
      const value = lookup(subject)
      if (value === UNREAD) return 'unsure'
      return value === ABSENT ? null : value === true || value === 'true' ? on : off
    }
  }
  const older = filters.superCondition
  if (older === null || older.properties.length === 0) return null
  const lookups = older.properties.map(({ key }) => compilePersonLookup(key))
  const condition = compileCondition(flag, { ...older, aggregation: null, variant: null }, [],
    { outcomes: { plain: on, byVariant: [] }, context })
  return (subject) => {
    const has = hasAny(lookups.map((lookup) => lookup(subject)))
    if (has !== true) return has === 'unsure' ? 'unsure' : null
    const result = condition(subject)
    return result === undefined ? 'unsure' : typeof result === 'object' ? result : off
  }
}

function hasAny (values: ReadonlyArray<ReturnType<PropertyLookup>>): boolean | 'unsure' {
  if (values.some((value) => value !== ABSENT && value !== UNREAD)) return true
  return values.includes(UNREAD) ? 'unsure' : false
}

/**
 * Compiles the holdout: a share of all identifiers that is excluded from a set of experiments.
 *
 * Hash keys stored for experience continuity are ignored here, so that every flag excludes the same users.
 *
 * @returns null when the flag has no holdout.
 */
function compileHoldout (flag: FlagDefinition, filters: ParsedFilters, make: MakeOutcome): EarlyStep | null {
  const { holdout } = filters
  if (holdout === null) return null
  const held = make({
    enabled: true,
    variant: holdout.variant,
    reason: 'holdout_condition_value',
    payload: filters.payloads.get(holdout.variant)
  })
  const share = Math.min(Math.max(holdout.percentage, 0), 100) / 100
  const identify = compileIdentify({ ...flag, ensure_experience_continuity: false }, filters.aggregation)
  return (subject) => {
    const identifier = flag.ensure_experience_continuity && filters.aggregation === null
      ? subject.anonDistinctId ?? subject.distinctId
      : identify(subject)
    if (typeof identifier !== 'string') return null
    return share === 1 || hashForHoldout(identifier) <= share ? held : null
  }
}

/** The first condition that matches decides; if none does, the reason with the highest priority is reported. */
function compileFirstMatch (
  conditions: readonly Condition[], earlyExit: boolean, make: MakeOutcome
): CompiledFlag['evaluate'] {
  const none = make({ enabled: false, reason: 'no_condition_match' })
  const misses = conditions.map((_, conditionIndex) => ({
    no_group_type: make({ enabled: false, reason: 'no_group_type', conditionIndex }),
    no_condition_match: make({ enabled: false, reason: 'no_condition_match', conditionIndex }),
    out_of_rollout_bound: make({ enabled: false, reason: 'out_of_rollout_bound', conditionIndex })
  }))
  return (subject) => {
    let miss = none
    for (let i = 0; i < conditions.length; i++) {
      const result = conditions[i]!(subject)
      if (result === undefined || typeof result === 'object') return result
      if (miss === none || outranks(result, miss.reason as Reason)) miss = misses[i]![result]
      if (earlyExit && result === 'out_of_rollout_bound') return miss
    }
    return miss
  }
}
