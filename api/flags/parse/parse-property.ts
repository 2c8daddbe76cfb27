import { OPERATORS_WITHOUT_VALUE, findOperator } from '../operators/compile-property-test.ts'
import { MalformedFlagError } from '../malformed-flag-error.ts'
import { readIndex, readObject } from './read-field.ts'

/** One filter of a condition or a leaf of a cohort. */
export interface ParsedProperty {
  /** Where it stands, for messages. */
  attr: string
  /** Null: not said; then what the condition counts by. */
  type: 'person' | 'group' | 'cohort' | 'flag' | null
  /** Name of the property; for type flag the key (or id) of that flag. */
  key: string
  operator: string
  value: unknown
  groupTypeIndex: number | null
  /** Leaves of cohorts may be turned round. */
  negation: boolean
}

const TYPES: ReadonlySet<unknown> = new Set(['person', 'group', 'cohort', 'flag'])

const COHORT_OPERATORS: ReadonlySet<string> = new Set(['in', 'not_in', 'exact'])

/** @throws {MalformedFlagError} naming the field: type, key, operator or value. */
export function parseProperty (property: unknown, attr: string): ParsedProperty {
  const fields = readObject(property, attr)
  const type = fields.type ?? null
  if (type !== null && !TYPES.has(type)) {
    throw new MalformedFlagError('invalid_choice', `${attr}__type`,
      `Properties of type ${JSON.stringify(type)} cannot be used in flags: use person, group, cohort or flag.`)
  }
  const parsed: ParsedProperty = {
    attr,
    type: type as ParsedProperty['type'],
    key: readKey(fields.key, type, attr),
    operator: readOperator(fields.operator, type, attr),
    value: fields.value,
    groupTypeIndex: readIndex(fields.group_type_index, `${attr}__group_type_index`),
    negation: fields.negation === true
  }
  if (parsed.value === undefined && !OPERATORS_WITHOUT_VALUE.has(parsed.operator)) {
    throw new MalformedFlagError('required', `${attr}__value`, 'This operator needs a value.')
  }
  return parsed
}

function readKey (key: unknown, type: unknown, attr: string): string {
  // Cohorts are named by the value; the key is by custom "id".
  if (type === 'cohort') return 'id'
  if (typeof key === 'string' && key !== '') return key
  // Some clients name a flag by its number.
  if (type === 'flag' && typeof key === 'number') return String(key)
  throw new MalformedFlagError('required', `${attr}__key`, 'A property must have a key.')
}

function readOperator (operator: unknown, type: unknown, attr: string): string {
  const name = operator ?? (type === 'cohort' ? 'in' : type === 'flag' ? 'flag_evaluates_to' : 'exact')
  const known = typeof name === 'string' && (
    type === 'cohort'
      ? COHORT_OPERATORS.has(name)
      : type === 'flag' ? name === 'flag_evaluates_to' || name === 'exact' : findOperator(name) !== null
  )
  if (known) return name
  throw new MalformedFlagError('invalid_choice', `${attr}__operator`, `There is no operator ${JSON.stringify(name)}.`)
}
