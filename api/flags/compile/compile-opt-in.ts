import { compileCondition } from './compile-condition.ts'
import { type MakeOutcome } from './compile-flag.ts'
import { type FilterContext } from './compile-filter.ts'
import { type EarlyStep } from './compile-holdout.ts'
import { type FlagDefinition } from '../flag-definition.ts'
import { type ParsedCondition, type ParsedFilters } from '../parse/parse-filters.ts'
import { compilePersonLookup, type PropertyLookup } from './property-lookup.ts'
import { ABSENT, UNREAD } from '../subject.ts'

/**
 * Compiles early access: persons who opted in or out have their own answer before everything else. Today's flags say
 * so with `feature_enrollment`, older ones with `super_groups`; both look at person properties, also for group flags.
 *
 * @returns null when the flag has none.
 */
export function compileOptIn (
  flag: FlagDefinition, filters: ParsedFilters, { make, context }: { make: MakeOutcome, context: FilterContext }
): EarlyStep | null {
  const conditionIndex = 0
  const on = make({
    enabled: true, reason: 'super_condition_value', conditionIndex, payload: filters.payloads.true
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
  const condition = compileCondition(flag, asPersonCondition(older), [],
    { outcomes: { plain: on, byVariant: [] }, context })
  return (subject) => {
    const has = hasAny(lookups.map((lookup) => lookup(subject)))
    if (has !== true) return has === 'unsure' ? 'unsure' : null
    const result = condition(subject)
    return result === undefined ? 'unsure' : typeof result === 'object' ? result : off
  }
}

function asPersonCondition (condition: ParsedCondition): ParsedCondition {
  return { ...condition, aggregation: null, variant: null }
}

function hasAny (values: ReadonlyArray<ReturnType<PropertyLookup>>): boolean | 'unsure' {
  if (values.some((value) => value !== ABSENT && value !== UNREAD)) return true
  return values.includes(UNREAD) ? 'unsure' : false
}
