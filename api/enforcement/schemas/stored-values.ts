/**
 * SQL for the properties that a schema names, as little of them as decides: from the shape of an event
 * (`property_types`) where that is enough, otherwise the values by themselves instead of the whole JSON.
 *
 * A value is found by the text of its name, which is several times quicker than parsing the JSON. Where that may be
 * wrong (the name is also one inside an object, the value has brackets in a text, another writer has left blanks), the
 * whole JSON is taken.
 */
import { quoteString } from '../../../schema/clickhouse-sql.ts'
import { PROPERTY_TYPE_CODES as CODES } from '../../../schema/wire/event-row.ts'
import { nameRuleOf } from '../../../platform/infer-property-type.ts'
import { type Need, type SchemaNeeds, takesAnyText } from './value-needs.ts'

/** JSON of an object about which the schema says what it says about the event, as SQL. */
export interface StoredValues {
  /** Whether the shape of the event decides. */
  isDecided: string
  /** Where it does: from the shape alone. */
  ofShape: string
  /** Of any event; reads `properties`. */
  ofValues: string
}

/** All properties of an event. Nothing else than a line feed between values ends a line, and a blank does as well. */
export const WHOLE = "translate(properties, '\\n', ' ')"

/** With more properties, all are read. */
const MAX_PROPERTIES = 64

/** @returns null when all properties are needed. */
export function storedValuesOf ({ properties, others }: SchemaNeeds): StoredValues | null {
  if (others !== 'nothing' || !areFound(properties)) return null
  const asked = [...properties].map(([name, need]) => createProperty(name, need))
  const values = partsOf(asked.map(({ ofValue }) => ofValue))
  const isSure = allOf([...asked.map(({ isFound }) => isFound), `NOT match(${values}, ${quoteString(UNSURE)})`])
  return {
    isDecided: allOf(asked.map(({ isDecided }) => isDecided)),
    ofShape: objectOf(partsOf(asked.map(({ ofShape }) => ofShape))),
    ofValues: `if(${isSure}, ${objectOf(values)}, ${WHOLE})`
  }
}

/** Whether stored events can be asked for all these properties by their names. */
export function areFound (properties: ReadonlyMap<string, Need>): boolean {
  return properties.size <= MAX_PROPERTIES && [...properties.keys()].every(isFound)
}

/** Whether shapes have the name when events do (`ingest/normalise/read-properties.ts`), and JSON has it as it is. */
function isFound (name: string): boolean {
  return Buffer.byteLength(name) <= MAX_NAME_BYTES && !NOT_DESCRIBED.test(name) && PLAIN.test(name)
}

const MAX_NAME_BYTES = 200
const NOT_DESCRIBED = /^\$(?:set|set_once|unset|groups|group_[0-4])$|\ufffd|\p{Surrogate}/u

/** JSON has no escapes in it; and with its quotes it is a name wherever it stands, never what is between two texts. */
const PLAIN = /^[^,:\]}"\\\p{Cc}][^"\\\p{Cc}]*$/u

/**
 * `simpleJSONExtractRaw` does not know that brackets in a text are none, nor that a backslash may be escaped, and then
 * finds no end of the value, or a later one. A line feed would end the line.
 */
const UNSURE = '[\\[{\\\\\\n]|:,|:$'

/** The SQL about one property; its part of an object is `,"name":value`, or nothing. */
interface Property {
  isDecided: string
  ofShape: string
  isFound: string
  ofValue: string
}

function createProperty (name: string, need: Need): Property {
  const code = codeOf(name)
  const isDecided = `${code} IN (${['', ...decidingCodes(name, need)].map(quoteString).join(', ')})`
  const key = keyOf(name)
  const value = `simpleJSONExtractRaw(properties, ${quoteString(name)})`
  // Any text does: that it is one, or that it is there, is all that is asked.
  const ofShape = `if(${code} = '', '', ${quoteString(`,${key}""`)})`
  return {
    isDecided,
    ofShape,
    isFound: `(${isDecided} OR countSubstrings(properties, ${quoteString(key)}) = 1)`,
    ofValue: `if(${isDecided}, ${ofShape}, concat(${quoteString(`,${key}`)}, ${value}))`
  }
}

/** The name as it stands in JSON, before its value. */
export function keyOf (name: string): string {
  return `"${name}":`
}

/** SQL of the code of a property in the shape; empty: there is none. */
export function codeOf (name: string): string {
  return `extract(property_types, ${quoteString(`(?s)(?:^|\\x00)e(.)${escapePattern(name)}(?:\\x00|$)`)})`
}

/** Codes of types that tell enough; what they say of a value depends on its name (`infer-property-type.ts`). */
export function decidingCodes (name: string, need: Need): string[] {
  if (!need.type) return [CODES.String, CODES.Numeric, CODES.Boolean, CODES.DateTime]
  if (!takesAnyText(need)) return []
  const rule = nameRuleOf(name)
  return rule === 'text' ? [] : rule === 'time' ? [CODES.String] : [CODES.String, CODES.DateTime]
}

function allOf (conditions: readonly string[]): string {
  return ["property_types != ''", ...conditions].join(' AND ')
}

/** SQL of their texts, one after the other. */
function partsOf (parts: readonly string[]): string {
  return `concat(${["''", "''", ...parts].join(', ')})`
}

function objectOf (parts: string): string {
  return `concat('{', substring(${parts}, 2), '}')`
}

function escapePattern (text: string): string {
  return text.replaceAll(/[^\w\s\u0080-\u{10ffff}]/gu, '\\$&')
}
