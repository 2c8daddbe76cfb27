import { isObject } from './evaluation.ts'

/**
 * What a schema asks of the value of a property. Two values that answer all of it alike get the same verdict, so that a
 * look back over stored events judges one of them (`value-classes.ts`).
 */
export interface ValueNeed {
  /** Whether there is more to it than that the property is there. */
  asksType: boolean
  /** Texts that are compared with the value. */
  texts: Set<string>
  /** Numbers that are compared with the value. */
  numbers: Set<number>
  /** Numbers of characters from which on a text is judged otherwise. */
  lengths: Set<number>
  /** Any part of a text may count: patterns, formats. */
  wholeText: boolean
  /** More of a number counts than on which side of some others it is. */
  wholeNumber: boolean
  /** What is in arrays and objects counts. */
  inside: boolean
}

/** What a schema asks of the properties of an event. */
export interface SchemaNeeds {
  /** By name of the property. */
  properties: Map<string, ValueNeed>
  /** It counts which other properties there are, or how many. */
  names: boolean
  /** What it asks of properties that it does not name. */
  others: ValueNeed
}

type Schema = Readonly<Record<string, unknown>>

/** Keywords about what is in an array or an object. */
const INSIDE = new Set([
  'items', 'minItems', 'maxItems', 'properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties',
  'maxProperties', 'dependentRequired'
])

/** Finds out what a schema that compiles asks. A keyword that is not known here counts as asking everything. */
export function needsOf (schema: Schema): SchemaNeeds {
  const definitions = isObject(schema.$defs) ? schema.$defs : {}
  const needs: SchemaNeeds = { properties: new Map(), names: false, others: createNeed() }
  walkWhole(schema)
  return needs

  function needOf (name: string): ValueNeed {
    let need = needs.properties.get(name)
    if (need === undefined) needs.properties.set(name, need = createNeed())
    return need
  }

  /** A schema of all properties. */
  function walkWhole (whole: unknown): void {
    if (!isObject(whole)) return
    for (const below of subschemasOf(whole, definitions)) walkWhole(below)
    for (const name of namesOf(whole.required)) needOf(name)
    for (const [name, names] of entriesOf(whole.dependentRequired)) [name, ...namesOf(names)].forEach(needOf)
    for (const [name, below] of entriesOf(whole.properties)) walkValue(below, needOf(name))
    const unnamed = [...entriesOf(whole.patternProperties).map(([, below]) => below), whole.additionalProperties]
    for (const below of unnamed) walkValue(below, needs.others)
    const counting = ['patternProperties', 'additionalProperties', 'minProperties', 'maxProperties']
    if (counting.some((keyword) => whole[keyword] !== undefined)) needs.names = true
  }

  /** A schema of one value. */
  function walkValue (schema: unknown, need: ValueNeed): void {
    if (!isObject(schema)) return
    for (const below of subschemasOf(schema, definitions)) walkValue(below, need)
    for (const [keyword, value] of Object.entries(schema)) addKeyword(need, keyword, value)
  }
}

function createNeed (): ValueNeed {
  return {
    asksType: false,
    texts: new Set(),
    numbers: new Set(),
    lengths: new Set(),
    wholeText: false,
    wholeNumber: false,
    inside: false
  }
}

/** Without a meaning of their own: annotations, and what leads to subschemas of the same value. */
const NEUTRAL = new Set([
  '$schema', '$defs', '$ref', 'title', 'description', 'default', 'examples', 'deprecated', '$comment', 'allOf', 'anyOf', 'oneOf',
  'not', 'if', 'then', 'else'
])

function addKeyword (need: ValueNeed, keyword: string, value: unknown): void {
  if (NEUTRAL.has(keyword)) return
  need.asksType = true
  if (keyword === 'type') return
  if (INSIDE.has(keyword)) {
    need.inside = true
  } else if (keyword === 'pattern' || keyword === 'format') {
    need.wholeText = true
  } else if (keyword === 'multipleOf') {
    need.wholeNumber = true
  } else if (keyword === 'enum' || keyword === 'const') {
    for (const each of keyword === 'enum' ? value as unknown[] : [value]) {
      if (typeof each === 'string') need.texts.add(each)
      if (typeof each === 'number') need.numbers.add(each)
    }
  } else if (keyword === 'minLength' || keyword === 'maxLength') {
    need.lengths.add(value as number).add(value as number + 1)
  } else if (/^(?:exclusiveM|m)(?:in|ax)imum$/.test(keyword)) {
    need.numbers.add(value as number)
  } else {
    need.wholeText = need.wholeNumber = need.inside = true
  }
}

/** Schemas that are held against the same value. */
function subschemasOf (schema: Schema, definitions: Schema): unknown[] {
  const { $ref, allOf, anyOf, oneOf, not, if: condition, then, else: otherwise } = schema
  const referred = typeof $ref === 'string' ? [definitions[$ref.slice('#/$defs/'.length)]] : []
  const listed = [allOf, anyOf, oneOf].flatMap((list) => Array.isArray(list) ? list : [])
  return [...referred, ...listed, not, condition, then, otherwise]
}

function entriesOf (value: unknown): [string, unknown][] {
  return isObject(value) ? Object.entries(value) : []
}

function namesOf (value: unknown): string[] {
  return Array.isArray(value) ? value as string[] : []
}
