import { isExactNumber } from './exact-number.ts'

/**
 * The JSON text of a parsed JSON value, fit to be stored: any depth, and every character has a UTF-8 form.
 *
 * `JSON.stringify` gives up a few thousand levels down, where `JSON.parse` does not; and it writes lone surrogates as
 * escapes, which the JSON functions of ClickHouse and Postgres refuse together with everything around them.
 */
export function stringifyJson (value: unknown): string {
  const text = stringifyAnyDepth(value)
  return text.includes('\\ud') ? replaceLoneSurrogates(text) : text
}

/** Escapes are taken one after the other, so that a backslash that is itself escaped begins none. */
const ESCAPE = /\\(?:ud[89a-f][0-9a-f]{2}|.)/g

/** In the output of `JSON.stringify` an escaped surrogate is always a lone one. */
function replaceLoneSurrogates (text: string): string {
  return text.replace(ESCAPE, (escape) => escape.startsWith('\\ud') ? '\ufffd' : escape)
}

function stringifyAnyDepth (value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null'
  } catch (error) {
    if (error instanceof RangeError) return stringifyWithOwnStack(value)
    throw error
  }
}

/** An array or object that is being written. */
interface Level {
  values: unknown[]
  /** Null for an array. */
  keys: string[] | null
  next: number
}

/** The same text, ten times slower, with a stack that only memory bounds. */
function stringifyWithOwnStack (root: unknown): string {
  const parts: string[] = []
  const levels: Level[] = []
  write(root)
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    const index = level.next++
    if (index === level.values.length) {
      parts.push(level.keys === null ? ']' : '}')
      levels.pop()
      continue
    }
    if (index > 0) parts.push(',')
    if (level.keys !== null) parts.push(JSON.stringify(level.keys[index]), ':')
    write(level.values[index])
  }
  return parts.join('')

  function write (value: unknown): void {
    if (typeof value !== 'object' || value === null || isExactNumber(value)) {
      parts.push(JSON.stringify(value))
    } else if (Array.isArray(value)) {
      parts.push('[')
      levels.push({ values: value, keys: null, next: 0 })
    } else {
      parts.push('{')
      levels.push({ values: Object.values(value), keys: Object.keys(value), next: 0 })
    }
  }
}
