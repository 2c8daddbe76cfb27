import { isRegex } from '../../platform/property-operators/match-text.ts'
import { invalidExperiment } from '../experiments/experiment-body.ts'

/** Operators of conditions, as in feature flags. */
const OPERATORS = [
  'exact', 'is_not', 'icontains', 'not_icontains', 'regex', 'not_regex', 'gt', 'gte', 'lt', 'lte', 'is_set', 'is_not_set'
] as const

type Operator = typeof OPERATORS[number]

/** What a property of an event must be like for the event to count. */
export interface PropertyCondition {
  key: string
  operator: Operator
  /** Texts to compare with, one of which must fit; empty for `is_set` and `is_not_set`. */
  values: string[]
}

/**
 * Reads conditions on the properties of an event: `[{ key, value, operator, type }]`, all of which must hold.
 *
 * @param path  Where they stand, for the error.
 * @throws {HttpError} 400 naming the condition that cannot be understood.
 */
export function readConditions (path: string, value: unknown): PropertyCondition[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw invalidExperiment(path, 'Conditions on properties must be an array.')
  return value.map((condition, index) => readCondition(`${path}__${index}`, condition))
}

function readCondition (path: string, condition: unknown): PropertyCondition {
  const { key, value, operator = 'exact', type = 'event' } = Object(condition) as Record<string, unknown>
  if (type !== 'event') throw invalidExperiment(`${path}__type`, 'Only conditions on properties of the event are supported.')
  if (typeof key !== 'string' || key === '') throw invalidExperiment(`${path}__key`, 'key of a condition must be the name of a property.')
  if (!isOperator(operator)) {
    throw invalidExperiment(`${path}__operator`, `operator of a condition must be one of ${OPERATORS.join(', ')}.`)
  }
  if (operator === 'is_set' || operator === 'is_not_set') return { key, operator, values: [] }

  const values = [value].flat().map((item) => readText(`${path}__value`, item))
  if (values.length === 0) throw invalidExperiment(`${path}__value`, 'value of a condition must not be empty.')
  if (['gt', 'gte', 'lt', 'lte'].includes(operator) && (values.length > 1 || !isNumber(values[0] ?? ''))) {
    throw invalidExperiment(`${path}__value`, `value of a condition with ${operator} must be a number.`)
  }
  if (operator === 'regex' || operator === 'not_regex') {
    if (values.length > 1 || !isRegex(values[0] ?? '')) {
      throw invalidExperiment(`${path}__value`, 'value of a condition with regex must be one regular expression (RE2).')
    }
  }
  return { key, operator, values }
}

function isOperator (value: unknown): value is Operator {
  return OPERATORS.some((operator) => operator === value)
}

/** Values compare as texts: numbers and booleans as JSON writes them. */
function readText (path: string, value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return JSON.stringify(value)
  throw invalidExperiment(path, 'value of a condition must be a string, a number, a boolean, or an array of these.')
}

function isNumber (text: string): boolean {
  return text.trim() !== '' && Number.isFinite(Number(text))
}
