import { findOperator } from '../operators/property-operators.ts'
import { type CohortDefinition, MalformedFlagError } from './flag-definition.ts'
import type { Outcome } from './flag-outcome.ts'
import { type ParsedProperty, parseProperty, readArray, readObject } from './parse-filters.ts'
import { ABSENT, compileGroupLookup, compilePersonLookup, type Subject, UNREAD } from './subject.ts'

/** Result of a filter. UNSURE: it depends on stored facts that have not been read. */
export type Truth = typeof NO | typeof YES | typeof UNSURE

export const NO = 0
export const YES = 1
export const UNSURE = 2

/** A compiled filter of a condition, a cohort or a whole group of them. */
type Filter = (subject: Subject) => Truth

/** What the filters of one flag may refer to; compiling records what they do refer to. */
export interface FilterContext {
  timezone: string
  findCohort: (id: number) => CohortDefinition | undefined
  /** Position of a flag, by key or id; -1 if missing. */
  findFlag: (reference: string) => number
  /** Outcome of another flag; undefined when it needs stored facts. */
  evaluateFlag: (position: number, subject: Subject) => Outcome | undefined
  /** Positions of the flags that the flag depends on; filled while compiling. */
  dependencies: Set<number>
  /** References to flags that do not exist, with their field; filled while compiling. */
  missingFlags: Array<{ attr: string, reference: string }>
  /** Static cohorts that the flag refers to; filled while compiling. */
  staticCohorts: Set<number>
  /** Conditions of cohorts that were compiled, each as often as it is named. */
  cohortSize: { conditions: number }
  /** Invalid filter values throw: true on write. False for stored flags: such a filter never passes. */
  strict: boolean
}

/**
 * Compiles one filter of a condition.
 *
 * @param aggregation  Index of the group type that the condition aggregates by; null for persons. Filters without a
 *   type are about its properties.
 * @throws {MalformedFlagError}
 */
export function compileFilter (property: ParsedProperty, aggregation: number | null, context: FilterContext): Filter {
  if (property.type === 'cohort') return compileCohort(property, `${property.attr}__value`, context, [])
  if (property.type === 'flag') return compileFlagFilter(property, context)
  return compilePropertyFilter(property, aggregation, context)
}

function compilePropertyFilter (property: ParsedProperty, aggregation: number | null, context: FilterContext): Filter {
  const { attr, key } = property
  const { test, whenAbsent } = findOperator(property.operator)!(property.value, {
    timezone: context.timezone,
    invalid: (message, code = 'invalid') => {
      if (context.strict) throw new MalformedFlagError(code, `${attr}__value`, message)
    }
  })
  const absent = whenAbsent ? YES : NO
  const groupType = property.type === 'person' ? null : property.groupTypeIndex ?? aggregation
  if (property.type === 'group' && groupType === null) {
    throw new MalformedFlagError('required', `${attr}__group_type_index`, 'A group property must name its group type.')
  }
  const lookup = groupType === null ? compilePersonLookup(key) : compileGroupLookup(groupType, key)
  return (subject) => {
    const value = lookup(subject)
    if (value === UNREAD) return UNSURE
    if (value === ABSENT) return absent
    return test(value, subject.nowMs) ? YES : NO
  }
}

/** `true` matches a flag that is on, `false` one that is off, a string that variant. */
function compileFlagFilter (property: ParsedProperty, context: FilterContext): Filter {
  const expected = property.value
  if (typeof expected !== 'boolean' && typeof expected !== 'string') {
    throw new MalformedFlagError('invalid', `${property.attr}__value`, 'The value must be true, false or a variant.')
  }
  const position = context.findFlag(property.key)
  if (position === -1) {
    context.missingFlags.push({ attr: `${property.attr}__key`, reference: property.key })
    return () => NO
  }
  context.dependencies.add(position)
  return (subject) => {
    const outcome = context.evaluateFlag(position, subject)
    // A failed flag is as unknown as one that needs stored facts: the flag that depends on it fails too.
    if (outcome === undefined || outcome.failed) return UNSURE
    return (typeof expected === 'boolean' ? outcome.enabled === expected : outcome.variant === expected) ? YES : NO
  }
}

/** Most conditions of the cohorts of a flag, with those in them: each cohort may name another one many times. */
const MAX_CONDITIONS = 10_000

/** Deepest nesting of groups in a cohort, and of cohorts in cohorts. Deeper ones are invalid. */
const MAX_DEPTH = 20

/**
 * Compiles membership in a cohort: a lookup in the stored list for a static one, property filters for a dynamic one.
 *
 * @param outer  Cohorts that are being compiled, to detect cycles.
 * @throws {MalformedFlagError} when the cohort does not exist or cannot be evaluated.
 */
function compileCohort (
  { value: reference, operator }: ParsedProperty, attr: string, context: FilterContext, outer: readonly number[]
): Filter {
  const id = Number(Array.isArray(reference) && reference.length === 1 ? reference[0] : reference)
  const cohort = context.findCohort(id)
  if (cohort === undefined) throw new MalformedFlagError('invalid', attr, 'This cohort does not exist.')
  if (outer.includes(id) || outer.length >= MAX_DEPTH) {
    throw new MalformedFlagError('invalid', attr, 'This cohort depends on itself.')
  }
  if (cohort.isStatic) context.staticCohorts.add(id)
  const isIn: Filter = cohort.isStatic
    ? ({ stored }) => (stored === null || cohort.isPending === true ? UNSURE : stored.cohortIds.has(id) ? YES : NO)
    : compileGroup(cohort.filters, attr, { context, cohorts: [...outer, id], depth: 0 })
  return operator === 'not_in' ? not(isIn) : isIn
}

/** The place of a group: its cohorts, outermost first, and its depth in the innermost. */
interface GroupPlace {
  context: FilterContext
  cohorts: readonly number[]
  depth: number
}

/** A group is `{ type, values }`; some clients wrap it as `{ properties: { type, values } }`. */
function compileGroup (group: unknown, attr: string, place: GroupPlace): Filter {
  const fields = readObject(group, attr)
  if (fields.properties != null && fields.values === undefined) return compileGroup(fields.properties, attr, place)
  const { type = 'AND', values } = fields
  if ((type !== 'AND' && type !== 'OR') || place.depth > MAX_DEPTH) {
    throw new MalformedFlagError('invalid', attr, 'The groups of this cohort must be AND or OR.')
  }
  const inner = { ...place, depth: place.depth + 1 }
  const members = readArray(values, attr).map((value) => compileMember(value, attr, inner))
  return type === 'AND' ? allOf(members) : anyOf(members)
}

function compileMember (value: unknown, attr: string, place: GroupPlace): Filter {
  const fields = readObject(value, attr)
  if ('values' in fields) return compileGroup(fields, attr, place)
  if (++place.context.cohortSize.conditions > MAX_CONDITIONS) throw new MalformedFlagError('invalid', attr, `The cohorts of a flag have at most ${MAX_CONDITIONS} conditions, including those of their cohorts.`)
  const property = parseProperty(fields, attr)
  const filter = property.type === 'cohort'
    ? compileCohort(property, attr, place.context, place.cohorts)
    : compileFilter(property, null, place.context)
  return property.negation ? not(filter) : filter
}

/** All must pass. A single NO decides, even if others are UNSURE. */
export function allOf (filters: readonly Filter[]): Filter {
  const [only] = filters
  if (filters.length === 1 && only !== undefined) return only
  return (subject) => {
    let result: Truth = YES
    for (const filter of filters) {
      const truth = filter(subject)
      if (truth === NO) return NO
      if (truth === UNSURE) result = UNSURE
    }
    return result
  }
}

/** One must pass. A single YES decides, even if others are UNSURE. */
function anyOf (filters: readonly Filter[]): Filter {
  return not(allOf(filters.map(not)))
}

function not (filter: Filter): Filter {
  return (subject) => {
    const truth = filter(subject)
    return truth === UNSURE ? UNSURE : truth === YES ? NO : YES
  }
}
