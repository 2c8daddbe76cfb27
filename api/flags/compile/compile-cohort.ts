import { compileFilter, type FilterContext } from './compile-filter.ts'
import { MalformedFlagError } from '../malformed-flag-error.ts'
import { parseProperty } from '../parse/parse-property.ts'
import { readArray, readObject } from '../parse/read-field.ts'
import { allOf, anyOf, NO, not, UNSURE, YES, type Filter } from './truth.ts'

/** Nesting of groups in a cohort, and of cohorts in cohorts. Deeper ones are mistakes. */
const MAX_DEPTH = 20

/**
 * Compiles membership in a cohort: a look into the stored list for a static one, the property group for a dynamic one.
 *
 * @param reference  Id of the cohort as the filter gives it.
 * @param outer      Cohorts that are being compiled, to find those that ask for themselves.
 * @throws {MalformedFlagError} when the cohort does not exist or cannot be evaluated.
 */
export function compileCohort (
  reference: unknown, attr: string, context: FilterContext, outer: readonly number[]
): Filter {
  const id = Number(Array.isArray(reference) && reference.length === 1 ? reference[0] : reference)
  const cohort = context.findCohort(id)
  if (cohort === undefined) throw new MalformedFlagError('invalid', attr, 'This cohort does not exist.')
  if (outer.includes(id) || outer.length >= MAX_DEPTH) {
    throw new MalformedFlagError('invalid', attr, 'This cohort asks for itself.')
  }
  if (cohort.isStatic) {
    context.staticCohorts.add(id)
    return ({ stored }) => (stored === null ? UNSURE : stored.cohortIds.has(id) ? YES : NO)
  }
  return compileGroup(cohort.filters, attr, { context, cohorts: [...outer, id], depth: 0 })
}

interface GroupPlace {
  context: FilterContext
  cohorts: readonly number[]
  depth: number
}

/** A group is `{ type, values }`; some clients wrap it once more as `{ properties: { type, values } }`. */
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
  const property = parseProperty(fields, attr)
  const filter = property.type === 'cohort'
    ? compileNestedCohort(property.value, property.operator, attr, place)
    : compileFilter(property, null, place.context)
  return property.negation ? not(filter) : filter
}

function compileNestedCohort (reference: unknown, operator: string, attr: string, place: GroupPlace): Filter {
  const isIn = compileCohort(reference, attr, place.context, place.cohorts)
  return operator === 'not_in' ? not(isIn) : isIn
}
