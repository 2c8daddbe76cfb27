/**
 * SQL that puts stored events into classes: a schema says the same about all events of a class. So one of them is
 * judged by the check of ingest, and ClickHouse counts the others.
 *
 * A class may be finer than needed, never coarser. Where SQL cannot tell, the value itself is the class, or the whole
 * event.
 */
import { quoteString } from '../../schema/clickhouse-sql.ts'
import { GROUP_TYPE_SEPARATOR, PROPERTY_TYPE_CODES as CODES } from '../../schema/event-row.ts'
import { nameRuleOf } from '../infer-property-type.ts'
import type { SchemaNeeds, ValueNeed } from './value-needs.ts'

/** How stored events are put into classes. */
export interface EventClasses {
  /** Names of expressions that the others use; what is not needed is not computed. */
  definitions: string[]
  /** Whether the shape of an event (`property_types`) decides, without its JSON. */
  isDecided: string
  /** Which of the properties that the schema names such an event has, as a list of their positions, from 1. */
  present: string
  /** The names by these positions. */
  names: string[]
  /** The class of any event, as a list of texts; reads `properties`. */
  classOf: string
}

/** With more properties, or more texts and numbers to compare with, classes cost more than reading each event. */
const MAX_PROPERTIES = 64
const MAX_COMPARED = 50

/** These are not described in `property_types` although events have them (`ingest/normalise/read-properties.ts`). */
const NOT_DESCRIBED = /^\$(?:set|set_once|unset|groups|group_[0-4])$|[\0\ufffd]|\p{Surrogate}/u

/** Bytes of a name at most that is described. */
const MAX_NAME_BYTES = 200

/** @returns null when nearly every event may be a class of its own, or classes cost more than they save. */
export function createEventClasses ({ properties, names, others }: SchemaNeeds): EventClasses | null {
  if (properties.size > MAX_PROPERTIES || (names && others.asksType)) return null
  const asked = [...properties].map(([name, need], index) => createProperty(name, need, index + 1))
  // One look at the JSON for all of them.
  const extracted = asked.filter(({ element }) => element !== null)
  const tuple = `JSONExtract(properties, ${quoteString(`Tuple(${extracted.map(({ element }) => element).join(', ')})`)})`
  const classes = asked.map((property) => property.classOf(extracted.indexOf(property) + 1))
  if (names) classes.push(NAMES)
  return {
    isDecided: names ? 'false' : ['property_types != \'\'', ...asked.map(({ isDecided }) => isDecided)].join(' AND '),
    definitions: asked.flatMap(({ definitions }) => definitions).concat(extracted.length === 0 ? [] : `${tuple} AS extracted`),
    present: `arrayFilter(at -> at > 0, CAST([${asked.map(({ code }, index) => `if(${code} = '', 0, ${index + 1})`).join(', ')}], 'Array(UInt8)'))`,
    names: asked.map(({ name }) => name),
    classOf: `CAST([${classes.join(', ')}], 'Array(String)')`
  }
}

/** The names in their order, which may say what is found first. */
const NAMES = 'if(isValidJSON(properties), toString(JSONExtractKeys(properties)), concat(\'x\', properties))'

/** The SQL about one property. */
interface Property {
  name: string
  /** Its code in `property_types`; empty: the event does not have it, or is not described. */
  code: string
  isDecided: string
  /** Its name and type in the tuple that the JSON is read into; null when it is not read so. */
  element: string | null
  definitions: string[]
  /** @param at  The place of its element in the tuple, from 1. */
  classOf: (at: number) => string
}

/** @param at  A number that the names of its expressions end with. */
function createProperty (name: string, need: ValueNeed, at: number): Property {
  const json = `json_${at}`
  const jsonText = `JSONExtractString(properties, ${quoteString(name)})`
  const raw = `raw_${at}`
  const rawClass = `multiIf(
    ${json} = '', if(isValidJSON(properties), '', concat('x', properties)),
    startsWith(${json}, '"'), ${classOfText(jsonText, need)},
    match(${json}, '^[-0-9]'), ${classOfNumber(json, need)},
    ${need.inside ? 'false' : `match(${json}, '^[[{]')`}, substring(${json}, 1, 1),
    concat('r', ${json}))`
  const definitions = [`JSONExtractRaw(properties, ${quoteString(name)}) AS ${json}`, `${rawClass} AS ${raw}`]
  if (NOT_DESCRIBED.test(name) || Buffer.byteLength(name) > MAX_NAME_BYTES) {
    return { name, code: "''", isDecided: 'false', element: null, definitions, classOf: () => raw }
  }
  const code = `code_${at}`
  definitions.push(`extract(property_types, ${quoteString(`(?s)(?:^|\\x00)e(.)${escapePattern(name)}(?:\\x00|$)`)}) AS ${code}`)
  // What a code says about the value depends on the name (`platform/infer-property-type.ts`).
  const rule = nameRuleOf(name)
  const texts = rule === 'text' ? [] : rule === 'time' ? [CODES.String] : [CODES.String, CODES.DateTime]
  const isAnyText = need.texts.size === 0 && need.lengths.size === 0 && !need.wholeText
  const values = [CODES.String, CODES.Numeric, CODES.Boolean, CODES.DateTime]
  const deciding = !need.asksType ? values : isAnyText ? texts : []
  return {
    name,
    code,
    isDecided: `${code} IN ${listOf(['', ...deciding])}`,
    definitions,
    // The engine wants a name that is one, and no number.
    element: need.asksType && rule !== 'text' && /^[A-Za-z_$][\w$ -]*$/.test(name) ? `\`${name}\` Nullable(String)` : null,
    classOf: (at) => {
      const text = `tupleElement(extracted, ${at})`
      const value = `ifNull(${text}, '')`
      const byCode = at === 0
        ? []
        : [`${code} IN ${listOf(texts)} AND ${text} IS NOT NULL, ${classOfText(value, need)}`,
            // With more characters it may be the text of a number that is too large to be one.
            `${code} = '${CODES.Numeric}' AND length(${value}) BETWEEN 1 AND 18, ${classOfNumber(value, need)}`]
      return `multiIf(property_types = '', ${[raw, `${code} = ''`, "''",
        ...need.asksType ? byCode : [`${code} IN ${listOf(deciding)}`, "'p'"], raw].join(', ')})`
    }
  }
}

function classOfText (text: string, need: ValueNeed): string {
  const lengths = [...need.lengths]
  if (need.wholeText || lengths.length > MAX_COMPARED) return `concat('s', ${text})`
  const parts = [quoteString('"')]
  if (need.texts.size > 0) parts.push(`if(${text} IN ${listOf([...need.texts])}, concat('=', ${text}), '')`)
  if (lengths.length > 0) parts.push(quoteString(' '), `toString(${sumOf(lengths.map((least) => `(lengthUTF8(${text}) >= ${least})`))})`)
  return parts.length === 1 ? parts[0]! : `concat(${parts.join(', ')})`
}

/**
 * A number by its place among those that it is compared with, and by whether it is whole. One that is close to another
 * is the class itself: the engine reads numbers a digit less exactly. So are those that are not written plainly, among
 * them texts of whole numbers that are too large to be numbers.
 */
function classOfNumber (text: string, need: ValueNeed): string {
  const itself = `concat('n', ${text})`
  const numbers = [...need.numbers]
  if (need.wholeNumber || numbers.length > MAX_COMPARED) return itself
  const value = `toFloat64OrZero(${text})`
  const isClose = numbers.map((number) => `abs(${value} - toFloat64('${number}')) <= ${1e-9 * Math.max(1, Math.abs(number))}`)
  const place = numbers.length === 0 ? '\'\'' : `toString(${sumOf(numbers.map((number) => `(${value} > toFloat64('${number}'))`))})`
  const isPlain = `match(${text}, '^-?[0-9]{1,15}([.][0-9]{1,17})?$')`
  return `multiIf(${[`NOT ${isPlain}`, ...isClose].join(' OR ')}, ${itself},
    concat(if(position(${text}, '.') = 0, '#', '.'), ${place}))`
}

/** Of conditions that are 0 or 1; faster than an array of them. */
function sumOf (conditions: readonly string[]): string {
  return `toUInt16(${conditions.join(' + ')})`
}

function listOf (texts: readonly string[]): string {
  // No text has this separator alone: an empty list is not SQL.
  return `(${(texts.length === 0 ? [GROUP_TYPE_SEPARATOR] : texts).map(quoteString).join(', ')})`
}

function escapePattern (text: string): string {
  return text.replaceAll(/[^\w\s\u0080-\u{10ffff}]/gu, '\\$&')
}
