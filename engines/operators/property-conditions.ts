import { fieldsOf } from '../fields.ts'
import { findSqlGap } from './compile-pattern.ts'
import { OPERATORS_WITHOUT_VALUE, findOperator } from './property-operators.ts'
import { lowerAscii, propertyText } from './property-test.ts'
import { invalidField } from '../errors.ts'

/** Operators of conditions: those of flags that `question-sql.ts` has, too, with the same meaning. */
const OPERATORS = [
  'exact', 'is_not', 'icontains', 'not_icontains', 'icontains_multi', 'not_icontains_multi', 'starts_with', 'not_starts_with',
  'ends_with', 'not_ends_with', 'regex', 'not_regex', 'gt', 'gte', 'lt', 'lte', 'between', 'not_between', 'is_set', 'is_not_set'
] as const

type Operator = typeof OPERATORS[number]

/** Whose property a condition is about: the event's, or that of its person as it is now; or a cohort of the person. */
type PropertyOwner = 'event' | 'person' | 'cohort'

/** What a property must be like for an event to count; of type `cohort`, in which cohort its person must be or not. */
export interface PropertyCondition {
  key: string
  type: PropertyOwner
  operator: Operator | 'in' | 'not_in'
  /** Texts as SQL compares them: lower case, a pattern, or bounds. Empty for `is_set` and `is_not_set`. */
  values: string[]
  /** Compares what somebody is shown who does not see addresses of mail. */
  isMasked?: boolean
}

/**
 * Reads conditions on properties: `[{ key, value, operator, type }]`, all of which must hold.
 *
 * @param path  Where they stand, for the error.
 * @param types  Whose properties they may be about.
 * @throws {HttpError} 400 naming the condition that cannot be understood.
 */
export function readConditions (path: string, value: unknown, types: readonly PropertyOwner[] = ['event']): PropertyCondition[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw invalidField(path, 'Conditions on properties must be an array.')
  return value.map((condition, index) => readCondition(`${path}__${index}`, condition, types))
}

/** Reads one condition. @throws {HttpError} 400 naming the field. */
export function readCondition (path: string, condition: unknown, types: readonly PropertyOwner[]): PropertyCondition {
  const { key, value, operator = 'exact', type: asked = 'event' } = fieldsOf(condition)
  const type = types.find((known) => known === asked)
  if (type === undefined) throw invalidField(`${path}__type`, `type of a condition must be ${types.join(' or ')}.`)
  if (type === 'cohort') return readMembership(path, fieldsOf(condition))
  if (typeof key !== 'string' || key === '') throw invalidField(`${path}__key`, 'key of a condition must be the name of a property.')
  if (!isOperator(operator)) {
    throw invalidField(`${path}__operator`, `operator of a condition must be one of ${OPERATORS.join(', ')}.`)
  }
  if (OPERATORS_WITHOUT_VALUE.has(operator)) return { key, type, operator, values: [] }
  return { key, type, ...readValue(`${path}__value`, operator, value) }
}

/** `{ type: 'cohort', value: 7, operator: 'in' | 'not_in' }`, as in flags. @throws {HttpError} naming the field. */
export function readMembership (
  path: string, { value, operator = 'in' }: Readonly<Record<string, unknown>>
): PropertyCondition {
  if (operator !== 'in' && operator !== 'not_in') throw invalidField(`${path}__operator`, 'operator of a cohort must be in or not_in.')
  if (!Number.isInteger(value) || !(Number(value) > 0)) throw invalidField(`${path}__value`, 'value must be the id of a cohort.')
  return { key: 'id', type: 'cohort', operator, values: [String(value)] }
}

function isOperator (value: unknown): value is Operator {
  return OPERATORS.some((operator) => operator === value)
}

/** All others take a list. */
const OF_ONE: ReadonlySet<Operator> = new Set(['gt', 'gte', 'lt', 'lte'])

function readValue (path: string, operator: Operator, value: unknown): Pick<PropertyCondition, 'values'> & { operator: Operator } {
  const items = [value].flat()
  const texts = items.map((item) => readText(path, operator, item))
  if (items.length === 0) throw invalidField(path, 'value of a condition must not be empty.')
  if (items.length > 1 && OF_ONE.has(operator)) throw invalidField(path, `value of a condition with ${operator} must be one value.`)
  // Flags compare such a number with the rounded one of the event, which SQL does not see.
  if ((operator === 'exact' || operator === 'is_not') && items.some((item) => Number.isInteger(item) && !Number.isSafeInteger(item))) {
    throw invalidField(path, 'A whole number beyond 2^53 has lost digits as value of a condition: write it as a string.')
  }
  findOperator(operator)?.(OF_ONE.has(operator) ? items[0] : items, {
    timezone: 'UTC',
    invalid: (message) => { throw invalidField(path, `value of a condition with ${operator} is not valid. ${message}`) }
  })
  const gap = operator.endsWith('regex') ? texts.map(findSqlGap).find((each) => each !== null) : null
  if (gap != null) throw invalidField(path, `value of a condition with ${operator} is not valid. ${gap}`)
  return { operator, values: texts.map((text) => asCompared(operator, text)) }
}

function asCompared (operator: Operator, text: string): string {
  // ClickHouse lets a dot match the end of a line, unless the pattern says otherwise.
  if (operator === 'regex' || operator === 'not_regex') return `(?-s)${text}`
  return operator === 'exact' || operator === 'is_not' ? text.toLowerCase() : lowerAscii(text)
}

/** Values compare as text: other types as their JSON. */
function readText (path: string, operator: Operator, value: unknown): string {
  if (typeof value === 'object' && value !== null && operator !== 'exact' && operator !== 'is_not') {
    throw invalidField(path, `value of a condition with ${operator} must be a string, a number, a boolean, null, or an array of these.`)
  }
  if (value === undefined) throw invalidField(path, 'value of a condition is missing.')
  return propertyText(value)
}
