/** The keywords of texts: `minLength`, `maxLength`, `pattern`, `format`. */
import { compileRe2 } from '../operators/compile-pattern.ts'
import { patternCost, patternSize } from '../operators/pattern-cost.ts'
import { type Check, fail, spend } from './evaluation.ts'

/** Characters of a pattern at most. */
export const MAX_PATTERN_LENGTH = 500

/** Instructions of a pattern at most, as the engine counts them: `{1,100}` repeats what it follows a hundred times. */
export const MAX_PATTERN_SIZE = 2000

/** What compiling all patterns of a schema or a rule may cost, in instructions: about a microsecond each. */
const MAX_PATTERNS_COST = 20_000

/** A day that there is: of months with 31, 30 and 28 days, and the 29 February of every fourth year. */
const DAY = [
  /\d{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])/,
  /\d{4}-(?:0[469]|11)-(?:0[1-9]|[12]\d|30)/,
  /\d{4}-02-(?:0[1-9]|1\d|2[0-8])/,
  /(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29/
].map(({ source }) => source).join('|')

/** A time of day. A leap second ends an hour of UTC, so elsewhere a quarter of an hour. */
const TIME = /(?:[01]\d|2[0-3]):(?:[0-5]\d:[0-5]\d|(?:14|29|44|59):60)(?:\.\d+)?/.source

/** The formats; each expression takes time linear in the text. */
const FORMATS = {
  'date-time': new RegExp(`^(?:${DAY})[Tt]${TIME}(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)$`),
  date: new RegExp(`^(?:${DAY})$`),
  email: /^[^\s@]{1,64}@[^\s@]{1,255}$/,
  uri: /^[A-Za-z][A-Za-z0-9+.-]*:[^\s<>"{}|\\^`]+$/,
  uuid: /^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$/
} as const

export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS)

/** Characters of a text with a format at most; longer ones have none. */
const MAX_FORMAT_TEXT = 8192

/** Matches a text; false also when the steps of the event are used up. */
export type TextTest = (text: string) => boolean

export function compileLength (keyword: 'minLength' | 'maxLength', limit: number): Check {
  // Characters are code points, of which a text has between half its length and its length.
  return keyword === 'minLength'
    ? (value) => typeof value !== 'string' || (value.length >= limit && (value.length >= 2 * limit || countCharacters(value) >= limit)) || fail(keyword, value)
    : (value) => typeof value !== 'string' || value.length <= limit || (value.length <= 2 * limit && countCharacters(value) <= limit) || fail(keyword, value)
}

export function compileFormat (name: string): Check {
  const expression = FORMATS[name as keyof typeof FORMATS]
  return (value) => typeof value !== 'string' || (value.length <= MAX_FORMAT_TEXT && expression.test(value)) || fail('format', value)
}

export function compilePatternCheck (test: TextTest): Check {
  return (value) => typeof value !== 'string' || test(value) || fail('pattern', value)
}

/** Compiles a pattern; returns the test, or the error. */
export type CompilePattern = (pattern: string) => TextTest | string

/** Compiles the patterns of one schema or rule, for the engine that flags use, whose time is linear in the text. */
export function createCompilePattern (): CompilePattern {
  let left = MAX_PATTERNS_COST

  return function compileWithin (pattern) {
    if (pattern.length > MAX_PATTERN_LENGTH) return `A pattern has at most ${MAX_PATTERN_LENGTH} characters.`
    // Before it is compiled, which takes time, too.
    const size = patternSize(pattern)
    if (size > MAX_PATTERN_SIZE) return `The pattern repeats too much: it would have more than ${MAX_PATTERN_SIZE} instructions.`
    left -= patternCost(pattern)
    return left < 0 ? `All patterns together cost more than ${MAX_PATTERNS_COST} instructions.` : compilePattern(pattern)
  }
}

function compilePattern (pattern: string): TextTest | string {
  const prefix = /^\^((?:\\[$.^_-]|[\w $-])+)$/.exec(pattern)?.[1]
  // A pattern for the beginning of a name, such as ^\$ for the properties of SDKs, needs no engine.
  if (prefix !== undefined && !/(?<!\\)\$/.test(prefix) && !/\\\w/.test(prefix)) {
    const text = prefix.replaceAll('\\', '')
    return (value) => value.startsWith(text)
  }
  const compiled = compileRe2(pattern)
  if (typeof compiled === 'string') return compiled
  const size = compiled.programSize()
  if (size > MAX_PATTERN_SIZE) return `The pattern has ${size} instructions, more than ${MAX_PATTERN_SIZE}.`
  return (value) => spend(value.length * size) && compiled.test(value)
}

function countCharacters (text: string): number {
  let count = text.length
  // The second halves of pairs; lone surrogates are characters.
  for (let at = 1; at < text.length; at++) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800) count--
  }
  return count
}
