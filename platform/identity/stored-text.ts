import { isExactNumber } from '../http-body/exact-number.ts'

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
