import { fieldsOf, isFields } from '../fields.ts'
import { MalformedFlagError } from './flag-definition.ts'
import { findOperator, OPERATORS_WITHOUT_VALUE } from '../operators/property-operators.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** The filters of a flag: every field has the right type, defaults are filled in. */
export interface ParsedFilters {
  conditions: ParsedCondition[]
  /** Index of the group type whose key is hashed; null for persons. */
  aggregation: number | null
  variants: ParsedVariant[]
  /** The shares of the variants may sum to less than 100: for the rest the flag is on without a variant. */
  restWithoutVariant: boolean
  /** By key of the variant, which may be any text, or `true`. */
  payloads: ReadonlyMap<string, unknown>
  /** Persons with property `$feature_enrollment/<key>` have opted in or out. */
  enrollment: boolean
  /** The older form of an opt-in; applies only to persons who have one of its properties. */
  superCondition: ParsedCondition | null
  holdout: ParsedHoldout | null
  /** A person who matches the properties of a condition but not its rollout gets false without trying the others. */
  earlyExit: boolean
}

export interface ParsedCondition {
  properties: ParsedProperty[]
  /** 0 to 100. */
  rolloutPercentage: number
  /** Variant for everyone who matches; ignored when there is no such variant. */
  variant: string | null
  aggregation: number | null
}

/** One filter of a condition, or one leaf of a cohort. */
export interface ParsedProperty {
  /** Path of the field, for errors. */
  attr: string
  /** Null when not given: then a property of whatever the condition aggregates by. */
  type: 'person' | 'group' | 'cohort' | 'flag' | null
  /** Name of the property; for type `flag`, the key or id of that flag. */
  key: string
  operator: string
  value: unknown
  groupTypeIndex: number | null
  /** Inverts the filter; only in cohorts. */
  negation: boolean
}

export interface ParsedVariant {
  key: string
  rolloutPercentage: number
}

export interface ParsedHoldout {
  variant: string
  /** Share of all identifiers in the holdout, in percent. */
  percentage: number
}

/**
 * Reads the filters of a flag as clients write them and Postgres stores them.
 *
 * @throws {MalformedFlagError} naming the first invalid field.
 */
export function parseFilters (filters: unknown): ParsedFilters {
  const fields = readObject(filters, 'filters')
  const aggregation = readIndex(fields.aggregation_group_type_index, 'filters__aggregation_group_type_index')
  const readConditions = (name: 'groups' | 'super_groups'): ParsedCondition[] =>
    readArray(fields[name], `filters__${name}`)
      .map((condition, i) => parseCondition(condition, `filters__${name}__${i}`, aggregation))
  return {
    conditions: readConditions('groups'),
    aggregation,
    variants: parseVariants(fields.multivariate),
    restWithoutVariant: fieldsOf(fields.multivariate)['rest_without_variant'] === true,
    payloads: new Map(Object.entries(fields.payloads == null ? {} : readObject(fields.payloads, 'filters__payloads'))),
    enrollment: fields.feature_enrollment === true,
    superCondition: readConditions('super_groups')[0] ?? null,
    holdout: parseHoldout(fields),
    earlyExit: fields.early_exit === true
  }
}

function parseCondition (condition: unknown, attr: string, flagAggregation: number | null): ParsedCondition {
  const fields = readObject(condition, attr)
  // Null means persons; only an absent field inherits from the flag.
  const aggregation = fields.aggregation_group_type_index === undefined
    ? flagAggregation
    : readIndex(fields.aggregation_group_type_index, `${attr}__aggregation_group_type_index`)
  if (fields.variant != null && typeof fields.variant !== 'string') {
    throw new MalformedFlagError('invalid', `${attr}__variant`, 'The variant must be the key of a variant.')
  }
  return {
    properties: readArray(fields.properties, `${attr}__properties`)
      .map((property, i) => parseProperty(property, `${attr}__properties__${i}`)),
    rolloutPercentage: readNumber(fields.rollout_percentage, `${attr}__rollout_percentage`, 100),
    variant: fields.variant ?? null,
    aggregation
  }
}

function parseVariants (multivariate: unknown): ParsedVariant[] {
  if (multivariate == null) return []
  const { variants } = readObject(multivariate, 'filters__multivariate')
  return readArray(variants, 'filters__multivariate__variants').map((variant, i) => {
    const attr = `filters__multivariate__variants__${i}`
    const { key, rollout_percentage: percentage } = readObject(variant, attr)
    if (typeof key !== 'string') throw new MalformedFlagError('required', `${attr}__key`, 'A variant must have a key.')
    return { key, rolloutPercentage: readNumber(percentage, `${attr}__rollout_percentage`, 0) }
  })
}

/** `holdout: { id, exclusion_percentage }`, or the first of the older `holdout_groups`. */
function parseHoldout (fields: JsonObject): ParsedHoldout | null {
  if (fields.holdout != null) {
    const { id, exclusion_percentage: percentage } = readObject(fields.holdout, 'filters__holdout')
    if (typeof id !== 'number' && typeof id !== 'string') {
      throw new MalformedFlagError('required', 'filters__holdout__id', 'A holdout must have an id.')
    }
    return {
      variant: `holdout-${id}`,
      percentage: readNumber(percentage, 'filters__holdout__exclusion_percentage', 0)
    }
  }
  const [first] = readArray(fields.holdout_groups, 'filters__holdout_groups')
  if (first === undefined) return null
  const { variant, rollout_percentage: percentage } = readObject(first, 'filters__holdout_groups__0')
  if (typeof variant !== 'string') {
    throw new MalformedFlagError('required', 'filters__holdout_groups__0__variant', 'A holdout must have a variant.')
  }
  return { variant, percentage: readNumber(percentage, 'filters__holdout_groups__0__rollout_percentage', 100) }
}

const TYPES: ReadonlySet<unknown> = new Set(['person', 'group', 'cohort', 'flag'])

const COHORT_OPERATORS: ReadonlySet<string> = new Set(['in', 'not_in', 'exact'])

/** @throws {MalformedFlagError} naming the invalid field: type, key, operator or value. */
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
  // The value names the cohort; the key is always "id".
  if (type === 'cohort') return 'id'
  if (typeof key === 'string' && key !== '') return key
  // Some clients name a flag by its id.
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

/** @throws {MalformedFlagError} when the value is not a JSON object. */
export function readObject (value: unknown, attr: string): JsonObject {
  if (isFields(value)) return value
  throw new MalformedFlagError(value === undefined ? 'required' : 'invalid', attr, 'This field must be an object.')
}

/** Absent and null are an empty array. @throws {MalformedFlagError} when the value is not an array. */
export function readArray (value: unknown, attr: string): readonly unknown[] {
  if (value == null) return []
  if (Array.isArray(value)) return value
  throw new MalformedFlagError('invalid', attr, 'This field must be an array.')
}

/** Absent and null are `otherwise`. @throws {MalformedFlagError} when the value is not a number. */
function readNumber (value: unknown, attr: string, otherwise: number): number {
  if (value == null) return otherwise
  if (typeof value === 'number') return value
  throw new MalformedFlagError('invalid', attr, 'This field must be a number.')
}

/** A group type index; absent and null are null. @throws {MalformedFlagError} */
function readIndex (value: unknown, attr: string): number | null {
  if (value == null) return null
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new MalformedFlagError('invalid', attr, 'This field must be the index of a group type.')
}
