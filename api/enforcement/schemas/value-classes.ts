/**
 * SQL that tells apart what a schema tells apart: events of which it says the same have the same keys. So ClickHouse
 * counts them, and the check of ingest judges one of each.
 *
 * What a keyword compares is a bit, by the text of the value. Where SQL is not sure to compare as ingest does, the text
 * itself is the key, and where even its end is not sure, the whole JSON. Keys may tell apart more than the schema does,
 * never less. Nothing here branches: ClickHouse evaluates branches on copies of the rows, which takes longer.
 */
import { quoteString } from '../../../schema/clickhouse-sql.ts'
import { FORMATS, isPortable, MAX_FORMAT_TEXT } from '../../../engines/json-schema/compile-text.ts'
import { areFound, codeOf, decidingCodes, keyOf } from './stored-values.ts'
import { type Need, type SchemaNeeds, takesAnyNumber, takesAnyText } from './value-needs.ts'

/** SQL about stored events, for one schema. */
export interface ValueClasses {
  /** Expressions with the names that the others use. */
  definitions: string[]
  /** What events have in common of which the schema says the same. */
  keys: string[]
  /** Whether few keys are expected: no text of an event is one. */
  isSure: string
}

/** With more comparisons, events are judged one by one. */
const MAX_BYTES = 128
const BYTES_OF_KEY = 8

/** Whether SQL can tell apart what is asked: the names of properties, and values of some. */
export function haveClasses ({ properties, others }: SchemaNeeds): boolean {
  return others !== 'values' && areFound(properties)
}

/** SQL of a list: for each property, whether the shape of an event leaves open what the schema says of it. */
export function openProperties ({ properties }: SchemaNeeds): string {
  const open = [...properties].map(([name, need]) => `${codeOf(name)} NOT IN (${decidingList(name, need)})`)
  return `CAST([${open.join(', ')}], 'Array(UInt8)')`
}

/**
 * @param maxBytes  Of JSON, within which no event uses up its steps.
 * @param areOpen   Whether the shape of any event leaves a property open (`openProperties`): only then its values are
 *   looked for. An event that comes later is told apart by its whole JSON.
 * @returns null when too much is asked.
 */
export function valueClassesOf (
  { properties, others }: SchemaNeeds, maxBytes: number, areOpen?: readonly boolean[]
): ValueClasses | null {
  const asked = [...properties].map(([name, need], index) =>
    areOpen?.[index] === false ? createDecided(name, need, index) : createProperty(name, need, index))
  const bytes = asked.flatMap((property) => property.bytes)
  if (bytes.length > MAX_BYTES) return null
  const ofNames = others === 'nothing' ? [] : [NAMES]
  const known = [
    "property_types != ''", `length(properties) <= ${maxBytes}`, ...asked.map(({ isKnown }) => isKnown),
    ...ofNames.map(({ isKnown }) => isKnown)
  ]
  const texts = asked.flatMap(({ text }) => text ?? [])
  return {
    definitions: [
      ...ofNames.flatMap(({ definitions }) => definitions), ...asked.flatMap(({ definitions }) => definitions),
      `(${known.join(' AND ')}) AS is_known`
    ],
    keys: [
      ...packBytes(bytes), `concat(${[...texts, textUnless('is_known', 'properties')].join(", '\\0', ")}, '')`,
      ...ofNames.flatMap(({ keys }) => keys)
    ],
    isSure: ['is_known', ...asked.flatMap(({ isSure }) => isSure ?? [])].join(' AND ')
  }
}

/**
 * All names, in their order, with which failures come. The shape has them all when JSON has no more than so many; other
 * JSON is parsed for them. No name has the character that they are joined by.
 */
const NAMES = {
  definitions: [
    `(countSubstrings(properties, '":') = countMatches(property_types, '(?:^|\\\\x00)e')
      AND position(property_types, '\ufffd') = 0) AS are_described`,
    `${textUnless('are_described', 'properties')} AS undescribed`,
    'JSONExtractKeys(undescribed) AS names'
  ],
  isKnown: '((notEmpty(names) OR undescribed = \'{}\' OR are_described) AND position(undescribed, \'\\\\u0000\') = 0)',
  keys: ['sipHash128(property_types)', "sipHash128(arrayStringConcat(names, '\\0'))"]
}

/** The SQL about one property. */
interface Property {
  definitions: string[]
  /** Whether its value is told by the bytes or by its text. */
  isKnown: string
  /** Whether the bytes tell all that the schema asks; null: always. Where they do not, its text; null: never. */
  isSure: string | null
  text: string | null
  bytes: string[]
}

/** First characters of values; those of numbers are from `-` to `9`. */
const TEXT = 34
const LIST = 91
const OBJECT = 123
const NULL = 110

function decidingList (name: string, need: Need): string {
  return ['', ...decidingCodes(name, need)].map(quoteString).join(', ')
}

/** A property of which the shapes of events say all that is asked. */
function createDecided (name: string, need: Need, at: number): Property {
  return {
    definitions: [`${codeOf(name)} AS code_${at}`],
    isKnown: `code_${at} IN (${decidingList(name, need)})`,
    isSure: null,
    text: null,
    bytes: [`code_${at} != ''`]
  }
}

/** @param at  What the names of its expressions end with. */
function createProperty (name: string, need: Need, at: number): Property {
  const [code, raw, first, number, asked, sure] = ['code', 'raw', 'first', 'number', 'asked', 'sure'].map((what) => `${what}_${at}`) as
    [string, string, string, string, string, string]
  const isNumber = `(${first} > 44 AND ${first} < 58)`
  const isNested = `(${first} = ${LIST} OR ${first} = ${OBJECT})`
  const texts = textTests(need, raw)
  const numbers = numberTests(need, raw, number)
  const doubts = [
    ...need.whole ? ['1'] : [], ...need.inside ? [isNested] : [],
    ...texts.isSure === null ? [] : [`(${first} = ${TEXT} AND NOT ${texts.isSure})`],
    ...numbers.isSure === null ? [] : [`(${isNumber} AND NOT ${numbers.isSure})`]
  ]
  const isAlwaysSure = doubts.length === 0
  return {
    definitions: [
      `${codeOf(name)} AS ${code}`,
      `${code} NOT IN (${decidingList(name, need)}) AS ${asked}`,
      `simpleJSONExtractRaw(properties, ${quoteString(name)}) AS ${raw}`,
      `reinterpretAsUInt8(${raw}) AS ${first}`,
      ...numbers.definitions,
      ...isAlwaysSure ? [] : [`NOT (${asked} AND (${doubts.join(' OR ')})) AS ${sure}`]
    ],
    // Its name is not also one inside an object; the value is there, whole, and of a kind that the shape does not deny.
    isKnown: `(NOT ${asked} OR (countSubstrings(properties, ${quoteString(keyOf(name))}) = 1 AND ${first} > 32
      AND (${code} != '?' OR ${first} = ${NULL} OR ${isNested})
      ${need.inside || need.whole ? `AND NOT (${isNested} AND position(${raw}, '\\\\') > 0)` : ''}))`,
    isSure: isAlwaysSure ? null : sure,
    text: isAlwaysSure ? null : textUnless(sure, raw),
    bytes: [
      `${first} * (NOT ${isNumber})`,
      ...packBits([`${code} != ''`, asked, ...isAlwaysSure ? [] : [sure], ...texts.bits, ...numbers.bits])
    ]
  }
}

interface Tests {
  definitions: string[]
  /** Whether the bits compare as ingest does; null: always. */
  isSure: string | null
  bits: string[]
}

/** Brackets in a text mislead the search for its end, and escapes are not what they stand for. */
const PLAIN_TEXT = '^"[^"\\\\[{]*"$'
const PLAIN_ASCII = '^"[ !#-Z\\]-z|}~]*"$'

function textTests (need: Need, raw: string): Tests {
  const { lists, lengths, patterns, formats } = need.texts
  if (takesAnyText(need)) return { definitions: [], isSure: null, bits: [] }
  if (![...patterns].every(isPortable)) return { definitions: [], isSure: '0', bits: [] }
  const expressions = [...patterns, ...[...formats].map((name) => FORMATS[name as keyof typeof FORMATS].source)]
  const unquoted = `substring(${raw}, 2, toUInt32(greatest(length(${raw}), 2) - 2))`
  const isPlain = `match(${raw}, ${quoteString(expressions.length > 0 ? PLAIN_ASCII : PLAIN_TEXT)})`
  return {
    definitions: [],
    isSure: formats.size === 0 ? isPlain : `(${isPlain} AND length(${raw}) <= ${MAX_FORMAT_TEXT})`,
    bits: [
      ...[...lists.values()].map((texts) => `${raw} IN (${texts.map((text) => quoteString(JSON.stringify(text))).join(', ')})`),
      ...[...lengths].map((length) => `lengthUTF8(${raw}) >= ${length + 2}`),
      ...expressions.map((expression) => `match(${unquoted}, ${quoteString(expression)})`)
    ]
  }
}

/** Fifteen digits are a number of 64 bits exactly enough to be told from any other that has as many. */
const PLAIN_NUMBER = '^-?[0-9]{1,15}([.][0-9]{1,15})?$'
const MAX_NUMBER_LENGTH = 16

/** Numbers that are closer to each other, relatively, are compared as texts. */
const CLOSE = 1e-9

function numberTests (need: Need, raw: string, number: string): Tests {
  const bounds = [...need.numbers.bounds]
  const divisors = [...need.numbers.divisors]
  if (takesAnyNumber(need)) return { definitions: [], isSure: null, bits: [] }
  if (!divisors.every(Number.isSafeInteger)) return { definitions: [], isSure: '0', bits: [] }
  const valueOf = (bound: number): string => `toFloat64(${quoteString(JSON.stringify(bound))})`
  const isThis = (bound: number): string => `${raw} = ${quoteString(JSON.stringify(bound))}`
  return {
    definitions: [`toFloat64OrZero(${raw}) AS ${number}`],
    isSure: `(${[
      `length(${raw}) <= ${MAX_NUMBER_LENGTH}`, `match(${raw}, ${quoteString(PLAIN_NUMBER)})`,
      ...bounds.map((bound) => `(${isThis(bound)} OR abs(${number} - ${valueOf(bound)}) > ${CLOSE * Math.max(1, Math.abs(bound))})`),
      ...divisors.length > 0 ? [`position(${raw}, '.') = 0`] : []
    ].join(' AND ')})`,
    bits: [
      ...need.isInteger ? [`${number} = trunc(${number})`] : [],
      ...bounds.flatMap((bound) => [isThis(bound), `${number} > ${valueOf(bound)}`]),
      ...divisors.map((divisor) => `toInt64OrZero(${raw}) % toInt64(${divisor}) = 0`)
    ]
  }
}

/** SQL of the text where the condition does not hold, of no text where it does. */
function textUnless (condition: string, text: string): string {
  return `left(${text}, (NOT ${condition}) * length(${text}))`
}

/** Bytes that have all bits. */
function packBits (bits: readonly string[]): string[] {
  return sliceBy(bits, 8).map((slice) => slice
    .map((bit, place) => place === 0 ? `(${bit})` : `bitShiftLeft(toUInt8(${bit}), ${place})`)
    .reduce((packed, bit) => `bitOr(${packed}, ${bit})`))
}

/** Numbers that have all bytes. */
function packBytes (bytes: readonly string[]): string[] {
  return sliceBy(bytes, BYTES_OF_KEY).map((slice) => slice
    .map((byte, place) => `bitShiftLeft(toUInt64(${byte}), ${8 * place})`).join(' + '))
}

function sliceBy<T> (list: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, index) =>
    list.slice(index * size, (index + 1) * size))
}
