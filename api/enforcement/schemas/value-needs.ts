import { isObject } from '../../../engines/json-schema/evaluation.ts'

/** What a schema asks of a property: nothing but whether it is there, or everything that its keywords compare. */
export interface Need {
  /** It matters of which type the value is. */
  type: boolean
  /** One whole number or none is not as good as another number. */
  isInteger: boolean
  /** What a text is compared with. */
  texts: TextNeeds
  /** What a number is compared with. */
  numbers: NumberNeeds
  /** What is in a list or an object matters. */
  inside: boolean
  /** The value matters in a way that is not known here. */
  whole: boolean
}

export interface TextNeeds {
  /** Each a list of which the text may be one. */
  lists: Map<string, readonly string[]>
  /** Characters, code points, at least; one more than a text may have at most. */
  lengths: Set<number>
  /** As in the schema. */
  patterns: Set<string>
  /** Names. */
  formats: Set<string>
}

export interface NumberNeeds {
  /** It may be below, equal or above. */
  bounds: Set<number>
  /** It may be a multiple. */
  divisors: Set<number>
}

/** What a schema asks of the properties of an event. */
export interface SchemaNeeds {
  /** By name of the property. */
  properties: Map<string, Need>
  /** Of other properties: nothing, which names there are, or their values. */
  others: 'nothing' | 'names' | 'values'
}

type Schema = Readonly<Record<string, unknown>>

/** Finds out what a schema that compiles asks. A keyword that is not known here counts as asking everything. */
export function needsOf (schema: Schema): SchemaNeeds {
  const definitions = isObject(schema.$defs) ? schema.$defs : {}
  const needs: SchemaNeeds = { properties: new Map(), others: 'nothing' }
  walkWhole(schema)
  return needs

  /** A schema of all properties. */
  function walkWhole (whole: unknown): void {
    if (!isObject(whole)) return
    for (const below of subschemasOf(whole, definitions)) walkWhole(below)
    for (const name of namesOf(whole.required)) need(name)
    for (const [name, names] of entriesOf(whole.dependentRequired)) {
      for (const each of [name, ...namesOf(names)]) need(each)
    }
    for (const [name, below] of entriesOf(whole.properties)) walkValue(below, need(name))
    for (const [keyword, value] of Object.entries(whole)) {
      if (NEUTRAL.has(keyword) || OF_NAMED.has(keyword) || value === true) continue
      const isOfNames = OF_SIZE.has(keyword) || (keyword === 'additionalProperties' && value === false) ||
        (keyword === 'patternProperties' && entriesOf(value).every(([, below]) => typeof below === 'boolean'))
      if (!isOfNames) needs.others = 'values'
      else if (needs.others === 'nothing') needs.others = 'names'
    }
  }

  /** A schema of one value. */
  function walkValue (value: unknown, known: Need): void {
    if (!isObject(value)) return
    for (const below of subschemasOf(value, definitions)) walkValue(below, known)
    for (const [keyword, asked] of Object.entries(value)) {
      if (NEUTRAL.has(keyword)) continue
      known.type = true
      const add = ADD_NEED[keyword]
      if (add === undefined) known.whole = true
      else add(known, asked)
    }
  }

  function need (name: string): Need {
    let known = needs.properties.get(name)
    if (known === undefined) needs.properties.set(name, known = createNeed())
    return known
  }
}

/** Whether any text is as good as another. */
export function takesAnyText ({ texts, whole }: Need): boolean {
  return !whole && texts.lists.size + texts.lengths.size + texts.patterns.size + texts.formats.size === 0
}

/** Whether any number is as good as another. */
export function takesAnyNumber ({ isInteger, numbers, whole }: Need): boolean {
  return !whole && !isInteger && numbers.bounds.size + numbers.divisors.size === 0
}

function createNeed (): Need {
  return {
    type: false,
    isInteger: false,
    texts: { lists: new Map(), lengths: new Set(), patterns: new Set(), formats: new Set() },
    numbers: { bounds: new Set(), divisors: new Set() },
    inside: false,
    whole: false
  }
}

/** Without a meaning of their own: annotations, and what leads to subschemas of the same value. */
const NEUTRAL = new Set([
  '$schema', '$defs', '$ref', 'title', 'description', 'default', 'examples', 'deprecated', '$comment', 'allOf', 'anyOf', 'oneOf',
  'not', 'if', 'then', 'else'
])

/** About properties by their names; `type` of all properties is one for all events. */
const OF_NAMED = new Set(['type', 'required', 'dependentRequired', 'properties'])

const OF_SIZE = new Set(['minProperties', 'maxProperties'])

/** What a keyword compares of a value. */
const ADD_NEED: Readonly<Record<string, (need: Need, asked: unknown) => void>> = {
  type: (need, asked) => { need.isInteger ||= asked === 'integer' || namesOf(asked).includes('integer') },
  enum: (need, asked) => addValues(need, asked as unknown[]),
  const: (need, asked) => addValues(need, [asked]),
  minLength: ({ texts }, asked) => texts.lengths.add(asked as number),
  maxLength: ({ texts }, asked) => texts.lengths.add(asked as number + 1),
  pattern: ({ texts }, asked) => texts.patterns.add(asked as string),
  format: ({ texts }, asked) => texts.formats.add(asked as string),
  minimum: addBound,
  maximum: addBound,
  exclusiveMinimum: addBound,
  exclusiveMaximum: addBound,
  multipleOf: ({ numbers }, asked) => numbers.divisors.add(asked as number),
  ...Object.fromEntries([
    'items', 'minItems', 'maxItems', 'properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties',
    'maxProperties', 'dependentRequired'
  ].map((keyword) => [keyword, (need: Need) => { need.inside = true }]))
}

function addBound ({ numbers }: Need, asked: unknown): void {
  numbers.bounds.add(asked as number)
}

/** Which of true, false and null it is, is told apart like types. */
function addValues ({ texts, numbers }: Need, values: readonly unknown[]): void {
  const listed = values.filter((value) => typeof value === 'string')
  if (listed.length > 0) texts.lists.set(JSON.stringify(listed), listed)
  for (const value of values) if (typeof value === 'number') numbers.bounds.add(value)
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
