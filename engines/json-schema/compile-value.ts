/** The keywords of single values and of arrays. */
import { isFields } from '../fields.ts'
import { compileFormat, compileLength, compilePatternCheck, FORMAT_NAMES } from './compile-text.ts'
import { type Check, fail, failBelow, spend, storedValue } from './evaluation.ts'
import { type CompileKeyword, compileRepeated, type Place, readCount, readPattern, SCHEMA_LIMITS } from './schema-place.ts'

/** Each compiles its value into checks. */
export const VALUE_KEYWORDS: Readonly<Record<string, CompileKeyword>> = {
  type: (value, place) => [compileType(value, place)],
  enum: (value, place) => {
    if (!Array.isArray(value) || value.length === 0 || value.length > SCHEMA_LIMITS.values) throw place.error(`Expected a list of 1 to ${SCHEMA_LIMITS.values} values.`)
    return [compileValues('enum', value, place)]
  },
  const: (value, place) => [compileValues('const', [value], place)],
  minLength: (value, place) => [compileLength('minLength', readCount(value, place))],
  maxLength: (value, place) => [compileLength('maxLength', readCount(value, place))],
  pattern: (value, place) => [compilePatternCheck(readPattern(value, place))],
  format: (value, place) => {
    if (typeof value !== 'string' || !FORMAT_NAMES.includes(value)) throw place.error(`Expected one of ${FORMAT_NAMES.join(', ')}.`)
    return [compileFormat(value)]
  },
  minimum: compileBound('minimum', (value, limit) => value >= limit),
  maximum: compileBound('maximum', (value, limit) => value <= limit),
  exclusiveMinimum: compileBound('exclusiveMinimum', (value, limit) => value > limit),
  exclusiveMaximum: compileBound('exclusiveMaximum', (value, limit) => value < limit),
  multipleOf: (value, place) => {
    if (typeof value !== 'number' || value <= 0) throw place.error('Expected a number above 0.')
    return compileBound('multipleOf', isMultiple)(value, place)
  },
  minItems: (value, place) => {
    const limit = readCount(value, place)
    return [(array) => !Array.isArray(array) || array.length >= limit || fail('minItems', array)]
  },
  maxItems: (value, place) => {
    const limit = readCount(value, place)
    return [(array) => !Array.isArray(array) || array.length <= limit || fail('maxItems', array)]
  },
  items: (value, place) => {
    const { check, steps } = compileRepeated(value, place)
    return [(array) => {
      if (!Array.isArray(array)) return true
      for (let at = 0; at < array.length; at++) {
        if (!spend(steps)) return fail('limit', array)
        if (!check(storedValue(array[at]))) return failBelow(at)
      }
      return true
    }]
  }
}

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  object: isFields,
  array: Array.isArray
}

function compileType (value: unknown, place: Place): Check {
  const names: unknown[] = Array.isArray(value) ? value : [value]
  const tests = names.map((name) => {
    if (typeof name !== 'string' || !Object.hasOwn(TYPES, name)) throw place.error(`Expected one of ${Object.keys(TYPES).join(', ')}, or a list of them.`)
    return TYPES[name]!
  })
  const [only] = tests
  if (only === undefined) throw place.error('Expected at least one type.')
  // By far the most common ones.
  if (tests.length === 1 && names[0] === 'string') return (tested) => typeof tested === 'string' || fail('type', tested)
  if (tests.length === 1 && names[0] === 'number') return (tested) => typeof tested === 'number' || fail('type', tested)
  return tests.length === 1
    ? (tested) => only(tested) || fail('type', tested)
    : (tested) => tests.some((test) => test(tested)) || fail('type', tested)
}

/** Values of which one is expected: texts, numbers, booleans and null, which a set finds. */
function compileValues (keyword: 'enum' | 'const', values: readonly unknown[], place: Place): Check {
  if (values.some((value) => typeof value === 'object' && value !== null)) throw place.error('Expected texts, numbers, booleans and null.')
  const known = new Set(values)
  return (value) => known.has(value) || fail(keyword, value)
}

/** As decimals: the doubles of 19.99 and 0.01 are off by their last bit, and so is their quotient. */
function isMultiple (number: number, divisor: number): boolean {
  const off = Math.abs(number / divisor - Math.round(number / divisor)) / Math.abs(number / divisor)
  return number % divisor === 0 || (!Number.isInteger(divisor) && off <= Number.EPSILON)
}

function compileBound (
  keyword: string, isMet: (value: number, limit: number) => boolean
): (limit: unknown, place: Place) => Check[] {
  return (limit, place) => {
    if (typeof limit !== 'number') throw place.error('Expected a number.')
    return [(value) => typeof value !== 'number' || isMet(value, limit) || fail(keyword, value)]
  }
}
