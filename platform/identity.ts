import { GROUP_TYPE_SEPARATOR } from '../schema/event-row.ts'
import { isExactNumber, numberText } from './http-body/parse-json.ts'
import { stringifyJson } from './http-body/stringify-json.ts'

/**
 * Who and what an event or a question is about, as it is stored. Anyone who takes an id or a name from outside
 * (capture, flags, persons, the command line) passes it through here, so that all of them speak of the same person,
 * group and event; see docs/decisions/0014-one-identity.md.
 *
 * The rule: a string is itself, a number is its text (`numberText`), any other JSON is its JSON text; cut to the
 * limit in characters (code points); NUL and lone surrogates become U+FFFD. Blanks and case count.
 */

/** Characters of a distinct id at most; the reference system's limit (docs/contract/sdks.md 1.7 and 2.2). */
export const MAX_DISTINCT_ID_LENGTH = 200

/** Characters of the name of an event and of a group type at most. */
export const MAX_NAME_LENGTH = 200

/** Characters of a group key at most; with 4 bytes each it still fits an index of Postgres (2,704 bytes). */
export const MAX_GROUP_KEY_LENGTH = 400

/** A distinct id as stored, also the anonymous one, the alias and the device's; empty when there is none. */
export function toDistinctId (value: unknown): string {
  return cleanText(cutText(identityText(value), MAX_DISTINCT_ID_LENGTH))
}

/** The key of a group as stored; empty when there is none. */
export function toGroupKey (value: unknown): string {
  return cleanText(cutText(identityText(value), MAX_GROUP_KEY_LENGTH))
}

/** A group type as stored; empty when there is none. The separator of `property_types` becomes U+FFFD, too. */
export function toGroupType (value: unknown): string {
  const name = cleanText(cutText(identityText(value), MAX_NAME_LENGTH))
  return name.includes(GROUP_TYPE_SEPARATOR) ? name.replaceAll(GROUP_TYPE_SEPARATOR, '\ufffd') : name
}

/** The name of an event as stored. */
export function toEventName (name: string): string {
  return cleanText(cutText(name, MAX_NAME_LENGTH))
}

function identityText (value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  // A number beyond all doubles, such as 1e400, is none, as NaN is.
  if (typeof value === 'number') return Number.isFinite(value) ? numberText(value) : ''
  return isExactNumber(value) ? numberText(value) : stringifyJson(value)
}

/**
 * Makes a text storable: NUL characters, which Postgres refuses and which end strings in too many places, and lone
 * surrogates, which have no UTF-8 form, become U+FFFD. Nothing else changes: neither case nor blanks nor other
 * control characters, and no Unicode normalisation.
 */
export function cleanText (text: string): string {
  if (text.includes('\0')) text = text.replaceAll('\0', '\ufffd')
  return text.isWellFormed() ? text : text.toWellFormed()
}

/**
 * Cuts a text to a number of characters (Unicode code points, as Postgres and SDKs other than JavaScript's count), so
 * that no surrogate pair is split. Costs one comparison for a text that is short enough.
 */
export function cutText (text: string, maxCharacters: number): string {
  // A character has one or two UTF-16 units.
  if (text.length <= maxCharacters) return text
  let end = 0
  for (let characters = 0; characters < maxCharacters && end < text.length; characters++) {
    end += (text.codePointAt(end) as number) > 0xffff ? 2 : 1
  }
  return end < text.length ? text.slice(0, end) : text
}

/** JSON can hold NUL and lone surrogates only as these escapes, which are rare. */
const ESCAPES = ['\\u0000', '\\ud', '\\uD']

/** Whether the strings of a JSON text may have to be cleaned: false for nearly every text, without parsing it. */
export function mayNeedCleaning (json: string | Buffer): boolean {
  return ESCAPES.some((escape) => json.includes(escape))
}

/**
 * A copy of a parsed JSON value in which all strings and names are clean (`cleanText`).
 *
 * Works off a list instead of calling itself, because a value may be nested deeper than the stack.
 */
export function cleanStrings (value: unknown): unknown {
  const root: { value?: unknown } = {}
  const todo: { into: object, key: string | number, value: unknown }[] = [{ into: root, key: 'value', value }]
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { into, key, value } = next
    if (typeof value === 'string') {
      put(into, key, cleanText(value))
    } else if (typeof value === 'object' && value !== null && !isExactNumber(value)) {
      const copy: object = Array.isArray(value) ? [] : {}
      put(into, key, copy)
      // From the end, because the list is worked off from its end: names keep their order.
      for (const [name, inner] of Object.entries(value).reverse()) {
        todo.push({ into: copy, key: cleanText(name), value: inner })
      }
    } else {
      put(into, key, value)
    }
  }
  return root.value
}

/** Not an assignment: `__proto__` is a name like any other. */
function put (into: object, key: string | number, value: unknown): void {
  Object.defineProperty(into, key, { value, writable: true, enumerable: true, configurable: true })
}
