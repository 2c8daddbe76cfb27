/**
 * A copy of a JSON value in which NUL characters and lone surrogates, in texts and in names, are U+FFFD: Postgres
 * stores neither, and ingest does the same to ids.
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
    } else if (typeof value === 'object' && value !== null) {
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

function cleanText (text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}

/** Not an assignment: `__proto__` is a name like any other. */
function put (into: object, key: string | number, value: unknown): void {
  Object.defineProperty(into, key, { value, writable: true, enumerable: true, configurable: true })
}
