import { compileCohort } from './compile-cohort.ts'
import { findOperator } from '../operators/compile-property-test.ts'
import { type CohortDefinition } from '../flag-definition.ts'
import { type Outcome } from '../flag-outcome.ts'
import { MalformedFlagError } from '../malformed-flag-error.ts'
import { type ParsedProperty } from '../parse/parse-property.ts'
import { compileGroupLookup, compilePersonLookup } from './property-lookup.ts'
import { ABSENT, UNREAD, type Subject } from '../subject.ts'
import { NO, not, UNSURE, YES, type Filter } from './truth.ts'

/** What the filters of one flag may refer to, and what they turned out to refer to. */
export interface FilterContext {
  timezone: string
  findCohort: (id: number) => CohortDefinition | undefined
  /** Position in the set of a flag named by key or id; -1 when there is none. */
  findFlag: (reference: string) => number
  /** Outcome of another flag; undefined when it needs stored facts. */
  evaluateFlag: (position: number, subject: Subject) => Outcome | undefined
  /** Positions of the flags that are asked for; filled while compiling. */
  dependencies: Set<number>
  /** References to flags that do not exist, with their field; filled while compiling. */
  missingFlags: Array<{ attr: string, reference: string }>
  /** Static cohorts that are asked for; filled while compiling. */
  staticCohorts: Set<number>
  /** Filter values that make no sense are errors: true on write, false for stored flags, where they never pass. */
  strict: boolean
}

/**
 * Compiles one filter of a condition.
 *
 * @param aggregation  Group type the condition counts by; null: persons. Filters without a type follow it.
 * @throws {MalformedFlagError}
 */
export function compileFilter (property: ParsedProperty, aggregation: number | null, context: FilterContext): Filter {
  if (property.type === 'cohort') return compileCohortFilter(property, context)
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

function compileCohortFilter (property: ParsedProperty, context: FilterContext): Filter {
  const isIn = compileCohort(property.value, `${property.attr}__value`, context, [])
  return property.operator === 'not_in' ? not(isIn) : isIn
}

/** `true` asks for anything but false, `false` for false, a text for that variant. */
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
    // A flag that failed is as unknown as one that waits for Postgres; who asks for it fails with it.
    if (outcome === undefined || outcome.failed) return UNSURE
    return (typeof expected === 'boolean' ? outcome.enabled === expected : outcome.variant === expected) ? YES : NO
  }
}
