/** Handwritten JSON and its errors. */
import { isExactNumber, keepDigits } from '../../../engines/body/exact-number.ts'
import { isFields } from '../../../engines/fields.ts'

export interface TextError {
  message: string
  /** The field, such as `properties › plan › pattern`; empty: the text as a whole. */
  field: string
}

export type Fields = Readonly<Record<string, unknown>>

export interface DraftLanguage {
  /** The fields of a request that it stands for, or why it stands for none. */
  read: (value: unknown) =>
    { fields: object, error?: undefined } | { fields?: undefined, error: { message: string, attr: string | null } }
  /** What an editor shows of a definition, of a version, or of such fields. */
  contentOf: (of: any) => Fields
  isOf: (attr: string | null) => boolean
  /** What stands before the draft in `attr` of an error: `schema__`. */
  root: string
}

/** The value of JSON text; whole numbers that a double cannot hold keep their digits, also when written again. */
export function readExactly (text: string): unknown {
  try {
    if (/(?<![\d.])\d{16}/.test(text)) return JSON.parse(text, keepDigits)
  } catch {} // No JSON, or too deep for a reviver, which the parser takes: each browser has another error.
  return JSON.parse(text)
}

/** What a text field means: JSON if it is, else the text. */
export function readJsonOrText (text: string): unknown {
  const read = readJson(text)
  return read.error === undefined ? read.value : text
}

/** The value that a text means, or why it means none. */
export function readJson (text: string): { value: unknown, error?: undefined } | { error: TextError } {
  try {
    return { value: readExactly(text) }
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    return { error: { message: `This is not JSON: ${message.replace(/^JSON\.parse: |^JSON Parse error: /, '')}`, field: '' } }
  }
}

export const writeJson = (value: unknown): string => JSON.stringify(value, null, 2)

export interface Difference {
  /** Such as `properties › plan › enum`. */
  place: string
  /** The JSON that stands there; null: nothing. */
  before: string | null
  after: string | null
}

/**
 * The places in which two values differ, at most `limit`. Lists of objects are compared item by item, others as one.
 *
 * @returns none when they say the same, in whatever order.
 */
export function listDifferences (one: unknown, other: unknown, limit = 20): Difference[] {
  const differences: Difference[] = []
  compare(one, other, [])
  return differences

  function compare (left: unknown, right: unknown, path: string[]): void {
    if (differences.length >= limit || JSON.stringify(left) === JSON.stringify(right)) return
    if (!(isObject(left) && isObject(right)) && !(isListOfFields(left) && isListOfFields(right))) {
      differences.push({ place: path.join(' › ') || 'the whole', before: textOf(left), after: textOf(right) })
      return
    }
    const [was, is] = [new Map(Object.entries(left)), new Map(Object.entries(right))]
    for (const name of new Set([...was.keys(), ...is.keys()])) compare(was.get(name), is.get(name), [...path, name])
  }
}

/** What `theirs` becomes when each field gets the value of `mine` that differs from `base`. */
export function mergeChanges<C extends object> (base: C, mine: C, theirs: C): C {
  const [was, is] = [new Map(Object.entries(base)), new Map(Object.entries(mine))]
  const changed = [...new Set([...was.keys(), ...is.keys()])]
    .filter((name) => listDifferences(was.get(name), is.get(name), 1).length > 0)
  const merged = { ...theirs, ...Object.fromEntries([...is].filter(([name]) => changed.includes(name))) }
  for (const name of changed) if (!is.has(name)) Reflect.deleteProperty(merged, name)
  return merged
}

const isObject = (value: unknown): value is Record<string, unknown> => isFields(value) && !('isRawJSON' in JSON && isExactNumber(value))

const isListOfFields = (value: unknown): value is object[] => Array.isArray(value) && value.every(isObject)

const textOf = (value: unknown): string | null => value === undefined ? null : JSON.stringify(value)

/**
 * The error of the API about a field of a text.
 *
 * @param attr  The field, levels joined by `__`, such as `schema__properties__plan__pattern`; null: none is named.
 * @param root  What stands before the text in `attr`: `schema__`. Without it, an error is about another field.
 */
export function toTextError ({ message, attr }: { message: string, attr: string | null }, root = ''): TextError {
  const isInside = attr?.startsWith(root) === true
  return { message, field: isInside ? attr.slice(root.length).replaceAll('__', ' › ') : '' }
}
