import { isExactNumber } from './parse-json.ts'

/**
 * Storable text, and the replacement of text that is not. Two things are refused by Postgres, ClickHouse's
 * JSON functions or UTF-8 itself: NUL characters and lone surrogates (half of a character beyond U+FFFF).
 *
 * - What SDKs send is made storable: both become U+FFFD. An event must not be lost for one character.
 * - What people write (management API, command line) is refused with the field's name: they can correct it.
 *
 * Nothing else changes: neither case nor blanks nor other control characters, and no Unicode normalisation. Ids and
 * names have a length as well: see `identity.ts`.
 */

/** Stands for whatever cannot be stored. */
export const REPLACEMENT = '\ufffd'

/** Whether a text can be stored as it is. */
export function isStorableText (text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}

/** The text with U+FFFD for everything that cannot be stored. */
export function toStorableText (text: string): string {
  if (text.includes('\0')) text = text.replaceAll('\0', REPLACEMENT)
  return text.isWellFormed() ? text : text.toWellFormed()
}

/**
 * Cuts a text to a number of characters (Unicode code points, as Postgres and SDKs other than JavaScript's count), so
 * that no surrogate pair is split. Costs one comparison for a text that is short enough.
 *
 * Copies the text, so that the rest can be freed: V8 makes a substring a view of the whole, so that keeping two hundred
 * characters would keep a megabyte.
 */
export function cutText (text: string, maxCharacters: number): string {
  // A character has one or two UTF-16 units.
  if (text.length <= maxCharacters) return text
  let end = 0
  for (let characters = 0; characters < maxCharacters && end < text.length; characters++) {
    end += (text.codePointAt(end) as number) > 0xffff ? 2 : 1
  }
  return end < text.length ? Buffer.from(text.slice(0, end), 'utf16le').toString('utf16le') : text
}

/** Whether a text has more characters (Unicode code points) than a limit. */
export function isLonger (text: string, maxCharacters: number): boolean {
  return text.length > maxCharacters && (text.length > 2 * maxCharacters || [...text].length > maxCharacters)
}

/** JSON can hold NUL and lone surrogates only as these escapes, which are rare. */
const UNSTORABLE_ESCAPES = ['\\u0000', '\\ud', '\\uD']

/** Whether a JSON text may hold strings that cannot be stored: false for nearly every text, without parsing it. */
export function mayHoldUnstorableText (json: string | Buffer): boolean {
  return UNSTORABLE_ESCAPES.some((escape) => json.includes(escape))
}

/**
 * A copy of a parsed JSON value in which all strings and names are storable.
 *
 * Works off a list instead of calling itself, because a value may be nested deeper than the stack.
 */
export function toStorableJson (value: unknown): unknown {
  const root: { value?: unknown } = {}
  const todo: { into: object, key: string | number, value: unknown }[] = [{ into: root, key: 'value', value }]
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { into, key, value } = next
    if (typeof value === 'string') {
      put(into, key, toStorableText(value))
    } else if (typeof value === 'object' && value !== null && !isExactNumber(value)) {
      const copy: object = Array.isArray(value) ? [] : {}
      put(into, key, copy)
      // From the end, because the list is worked off from its end: names keep their order.
      for (const [name, inner] of Object.entries(value).reverse()) {
        todo.push({ into: copy, key: toStorableText(name), value: inner })
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

/** Not behind a backslash that is itself one half of an escape. */
const LONE_SURROGATE = /(?<=(?:^|[^\\])(?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g

/**
 * The output of `JSON.stringify` with U+FFFD for lone surrogates, which it writes as escapes: the JSON functions of
 * ClickHouse and Postgres refuse such a text as a whole. NUL stays the escape that it is, which ClickHouse reads; what
 * goes to Postgres passes `toStorableJson` first.
 */
export function replaceLoneSurrogates (json: string): string {
  if (!json.includes('\\ud')) return json
  // In the output of JSON.stringify an escaped surrogate is always a lone one. A function instead of the text would
  // take more memory than a thread has for 30 MB of them.
  return json.replace(LONE_SURROGATE, REPLACEMENT)
}
