/** JSON that somebody writes by hand: what is wrong with it, and where a field of it stands. */
import { isFields } from '../../../engines/fields.ts'

/** A part of a text, in characters. */
export interface TextRange { from: number, to: number }

/** Why something that was written is refused. */
export interface TextError {
  message: string
  /** The field, as a list of names; empty: the text as a whole. */
  path: string[]
  /** Where to look; undefined: unknown. */
  range?: TextRange
}

/** What the text of a draft means. */
export interface DraftLanguage {
  /** The fields of a request that it stands for, or why it stands for none. */
  read: (value: unknown) => { fields: object, error?: undefined } | { error: { message: string, attr: string | null } }
  /** What an editor shows of a definition, of a version, or of such fields. */
  contentOf: (of: any) => unknown
  /** Whether an error of the API is about the draft. */
  isOf: (attr: string | null) => boolean
  /** What stands before the draft in `attr` of an error: `schema__`. */
  root: string
}

/** The value that a text means, or why it means none. */
export function readJson (text: string): { value: unknown, error?: undefined } | { error: TextError } {
  try {
    return { value: JSON.parse(text) }
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    const at = placeInMessage(message, text)
    const range = at === undefined ? {} : { range: { from: at, to: Math.min(at + 1, text.length) } }
    return { error: { message: `This is not JSON: ${message.replace(/^JSON\.parse: |^JSON Parse error: /, '')}`, path: [], ...range } }
  }
}

/** A value as it stands in an editor. */
export function writeJson (value: unknown): string {
  return JSON.stringify(value, null, 2)
}

/**
 * The places in which two values differ, such as `properties › plan › enum`, at most `limit`.
 *
 * @returns none when they say the same, in whatever order.
 */
export function listDifferences (one: unknown, other: unknown, limit = 20): string[] {
  const places: string[] = []
  compare(one, other, [])
  return places

  function compare (left: unknown, right: unknown, path: string[]): void {
    if (places.length >= limit || JSON.stringify(left) === JSON.stringify(right)) return
    if (!isFields(left) || !isFields(right)) {
      places.push(path.join(' › ') || 'the whole')
      return
    }
    for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
      compare(left[name], right[name], [...path, name])
    }
  }
}

/**
 * The error of the API about a field of a text.
 *
 * @param attr  The field, levels joined by `__`, such as `schema__properties__plan__pattern`; null: none is named.
 * @param root  What stands before the text in `attr`: `schema__`. Without it, an error is about another field.
 */
export function locateError (text: string, { message, attr }: { message: string, attr: string | null }, root = ''): TextError {
  const whole = { message, path: [] }
  const read = readJson(text)
  if (read.error !== undefined || attr === null || !`${attr}__`.startsWith(root)) return whole
  const path = splitAttr(attr.slice(root.length), read.value)
  return path.length === 0 ? whole : { message, path, range: findPlace(text, path) }
}

/** The line of a character, from 1. */
export function lineOf (text: string, at: number): number {
  return text.slice(0, at).split('\n').length
}

/** Names may contain `__` themselves, so those of the value decide where one ends. */
function splitAttr (attr: string, root: unknown): string[] {
  const path: string[] = []
  let [rest, here] = [attr, root]
  while (rest !== '') {
    const entries = new Map(typeof here === 'object' && here !== null ? Object.entries(here) : [])
    const fitting = [...entries.keys()].filter((name) => rest === name || rest.startsWith(`${name}__`)).sort((one, other) => other.length - one.length)
    const name = fitting[0] ?? rest.replace(/__.*$/s, '')
    path.push(name)
    rest = rest.slice(name.length + 2)
    here = entries.get(name)
  }
  return path
}

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+)/y

/** Where a value stands in a text that is JSON. Of one that is not there: the name of the innermost one that is. */
export function findPlace (text: string, path: readonly string[]): TextRange {
  let at = 0
  const peek = (): TextRange & { token: string } => {
    TOKEN.lastIndex = at
    const token = TOKEN.exec(text)?.[1] ?? ''
    return { token, from: TOKEN.lastIndex - token.length, to: TOKEN.lastIndex }
  }
  const next = (): ReturnType<typeof peek> => {
    const found = peek()
    at = found.to
    return found
  }

  /** @param rest  Names from here on; null: nothing in this value is asked for. */
  function readValue (rest: readonly string[] | null): TextRange | undefined {
    const { token: begin, from } = next()
    let inner: TextRange | undefined
    if (begin === '{' || begin === '[') {
      for (let index = 0; !'}]'.includes(peek().token); index++) {
        if (peek().token === ',') next()
        const key = peek()
        if (begin === '{') next()
        const name = begin === '{' ? JSON.parse(key.token) as string : String(index)
        if (begin === '{') next()
        const further = rest?.[0] === name ? rest.slice(1) : null
        const found = readValue(further)
        // Of a name that is written twice, the last one counts.
        if (further !== null) inner = found ?? { from: key.from, to: key.to }
      }
      next()
    }
    return rest?.length === 0 ? { from, to: at } : inner
  }

  return readValue(path) ?? { from: 0, to: 1 }
}

/** The place that browsers name: `at position 12`, `(line 2 column 3)`, or the end of the text. */
function placeInMessage (message: string, text: string): number | undefined {
  const position = /at position (\d+)/.exec(message)
  if (position !== null) return Number(position[1])
  const place = /line (\d+) column (\d+)/.exec(message)
  if (place !== null) {
    const before = text.split('\n').slice(0, Number(place[1]) - 1).join('\n')
    return Math.min(text.length, before.length + Number(place[2]) - (place[1] === '1' ? 1 : 0))
  }
  return /end of (?:JSON|input|data)/i.test(message) ? text.length : undefined
}
