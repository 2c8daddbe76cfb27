import { isObject } from './evaluation.ts'

/** What a schema asks of a property: whether it is there; of which type it is; which value it has. */
export type Need = 'presence' | 'type' | 'value'

/** What a schema asks of the properties of an event. */
export interface SchemaNeeds {
  /** By name of the property. */
  properties: Map<string, Need>
  /** It counts which other properties there are, or how many, or what they are. */
  others: boolean
}

type Schema = Readonly<Record<string, unknown>>

/** Finds out what a schema that compiles asks. A keyword that is not known here counts as asking everything. */
export function needsOf (schema: Schema): SchemaNeeds {
  const definitions = isObject(schema.$defs) ? schema.$defs : {}
  const needs: SchemaNeeds = { properties: new Map(), others: false }
  walkWhole(schema)
  return needs

  /** A schema of all properties. */
  function walkWhole (whole: unknown): void {
    if (!isObject(whole)) return
    for (const below of subschemasOf(whole, definitions)) walkWhole(below)
    for (const name of namesOf(whole.required)) need(name, 'presence')
    for (const [name, names] of entriesOf(whole.dependentRequired)) {
      for (const each of [name, ...namesOf(names)]) need(each, 'presence')
    }
    for (const [name, below] of entriesOf(whole.properties)) {
      need(name, 'presence')
      walkValue(below, name)
    }
    for (const [keyword, value] of Object.entries(whole)) {
      if (!NEUTRAL.has(keyword) && !OF_NAMES.has(keyword) && value !== true) needs.others = true
    }
  }

  /** A schema of one value. */
  function walkValue (value: unknown, name: string): void {
    if (!isObject(value)) return
    for (const below of subschemasOf(value, definitions)) walkValue(below, name)
    for (const keyword of Object.keys(value)) {
      if (!NEUTRAL.has(keyword)) need(name, OF_OTHER_TYPES.has(keyword) ? 'type' : 'value')
    }
  }

  function need (name: string, asked: Need): void {
    const known = needs.properties.get(name)
    if (known === undefined || STRENGTH[asked] > STRENGTH[known]) needs.properties.set(name, asked)
  }
}

const STRENGTH: Readonly<Record<Need, number>> = { presence: 0, type: 1, value: 2 }

/** Without a meaning of their own: annotations, and what leads to subschemas of the same value. */
const NEUTRAL = new Set([
  '$schema', '$defs', '$ref', 'title', 'description', 'default', 'examples', 'deprecated', '$comment', 'allOf', 'anyOf', 'oneOf',
  'not', 'if', 'then', 'else'
])

/** About properties by their names; `type` of all properties is one for all events. */
const OF_NAMES = new Set(['type', 'required', 'dependentRequired', 'properties'])

/** To these, one text is as good as another. */
const OF_OTHER_TYPES = new Set([
  'type', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'items', 'minItems', 'maxItems', 'properties',
  'required', 'additionalProperties', 'patternProperties', 'minProperties', 'maxProperties', 'dependentRequired'
])

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
