import { isExactNumber } from '../body/parse-json.ts'
import { isLonger } from '../body/storable-text.ts'
import { compileRe2 } from './compile-pattern.ts'
import { readNumber } from './match-number.ts'
import { patternCost } from './pattern-cost.ts'
import { type CompileTest, lowerAscii, NEVER, propertyText, rememberTexts, type ValueTest } from './property-test.ts'

/**
 * Of texts, and of whether there is a value. One text of a list is enough; to a negated operator none may be there. The
 * negated ones pass for a missing property.
 */
export const TEXT_OPERATORS: Readonly<Record<string, CompileTest>> = {
  // Equal to a text, or to one of several, ignoring case.
  exact: (value) => ({ test: equals(value), whenAbsent: false }),
  is_not: (value) => {
    const test = equals(value)
    return { test: (actual, nowMs) => !test(actual, nowMs), whenAbsent: true }
  },
  is_set: () => ({ test: () => true, whenAbsent: false }),
  is_not_set: () => ({ test: () => false, whenAbsent: true }),
  icontains: compileText((actual, expected) => actual.includes(expected), false),
  not_icontains: compileText((actual, expected) => actual.includes(expected), true),
  icontains_multi: compileText((actual, expected) => actual.includes(expected), false),
  not_icontains_multi: compileText((actual, expected) => actual.includes(expected), true),
  starts_with: compileText((actual, expected) => actual.startsWith(expected), false),
  not_starts_with: compileText((actual, expected) => actual.startsWith(expected), true),
  ends_with: compileText((actual, expected) => actual.endsWith(expected), false),
  not_ends_with: compileText((actual, expected) => actual.endsWith(expected), true),
  regex: compilePattern(false),
  not_regex: compilePattern(true)
}

/**
 * A boolean equals the strings "true" or "false", and never a number. SDKs call this property matching version 2, which
 * `local-evaluation-definitions.ts` announces to them.
 */
function equals (expected: unknown): ValueTest {
  const test = equalsText(expected)
  const rounded = new Set(listOf(expected).filter(mayBeRounded))
  if (rounded.size === 0) return test
  return (actual, nowMs) => test(actual, nowMs) || (isExactNumber(actual) && rounded.has(readNumber(actual)))
}

/** Filters are stored with doubles, so a longer number in a filter has lost digits. */
function mayBeRounded (expected: unknown): boolean {
  return Number.isInteger(expected) && !Number.isSafeInteger(expected)
}

function equalsText (expected: unknown): ValueTest {
  if (!Array.isArray(expected)) {
    const text = propertyText(expected).toLowerCase()
    return (actual) => lowerText(actual, text.length) === text
  }
  // As SDKs do: an empty list means "true".
  if (expected.length === 0) return isTruthy
  const texts = new Set(expected.map((item) => propertyText(item).toLowerCase()))
  const longest = [...texts].reduce((most, { length }) => Math.max(most, length), 0)
  return (actual) => {
    const text = lowerText(actual, longest)
    return text !== null && texts.has(text)
  }
}

/**
 * The text of a value in lower case; null when it is longer than any that it is compared with. Lower case may have more
 * characters than the text, and never fewer.
 */
function lowerText (value: unknown, longest: number): string | null {
  const text = propertyText(value)
  return text.length > longest ? null : text.toLowerCase()
}

/** Whether a value is `true` or its text, or all that is in a list and the lists in it, which may be of any depth. */
function isTruthy (value: unknown): boolean {
  if (!Array.isArray(value)) return value === true || (typeof value === 'string' && lowerText(value, 4) === 'true')
  let isAll = truths.get(value)
  if (isAll !== undefined) return isAll
  isAll = true
  const lists: unknown[][] = [value]
  for (let list = lists.pop(); list !== undefined && isAll; list = lists.pop()) {
    for (const item of list) {
      if (Array.isArray(item)) lists.push(item as unknown[])
      else if (!isTruthy(item)) isAll = false
    }
  }
  truths.set(value, isAll)
  return isAll
}

/** Of lists, for all conditions that ask. */
const truths = new WeakMap<object, boolean>()

type CompareTexts = (actual: string, expected: string) => boolean

function compileText (compare: CompareTexts, negated: boolean): CompileTest {
  return (value) => {
    const expected = listOf(value).map((item) => lowerAscii(propertyText(item)))
    const test = (actual: unknown): boolean => {
      const text = lowerAscii(propertyText(actual))
      return expected.some((each) => compare(text, each)) !== negated
    }
    return { test, whenAbsent: negated }
  }
}

const listOf = (value: unknown): readonly unknown[] => Array.isArray(value) ? value : [value]

/**
 * Texts of more characters match no pattern, positive or negated. The engine takes time linear in the text, but without
 * a limit one request with a megabyte of properties could block the process.
 */
const MAX_REGEX_TEXT = 16_384

export const isTooLongForRegex = rememberTexts((text) => isLonger(text, MAX_REGEX_TEXT))

/** Whether a pattern is anywhere in a text. */
type TextTest = (text: string) => boolean

/** Compiled patterns, shared by all projects; the oldest is removed when there are too many. */
const MAX_COMPILED = 2000
const compiled = new Map<string, TextTest | string>()

/** Searches anywhere in the text. An empty list passes nothing, negated or not; nor does what does not compile. */
function compilePattern (negated: boolean): CompileTest {
  return (value, { invalid }) => {
    const patterns: TextTest[] = []
    for (const item of listOf(value)) {
      const pattern = compileCached(propertyText(item))
      if (typeof pattern === 'string') {
        invalid(pattern, 'invalid_regex')
        return NEVER
      }
      patterns.push(pattern)
    }
    if (patterns.length === 0) return NEVER
    const test = (actual: unknown): boolean => {
      const text = propertyText(actual)
      return !isTooLongForRegex(text) && patterns.some((matches) => matches(text)) !== negated
    }
    return { test, whenAbsent: negated }
  }
}

/** What compiling a pattern may cost, in instructions: about a tenth of a second. */
const MAX_REGEX_COST = 100_000

/** The test, or the error of the pattern. */
function compileCached (pattern: string): TextTest | string {
  const known = compiled.get(pattern)
  if (known !== undefined) return known
  const fresh = compileWithin(pattern)
  if (compiled.size >= MAX_COMPILED) compiled.delete(compiled.keys().next().value!)
  compiled.set(pattern, fresh)
  return fresh
}

function compileWithin (pattern: string): TextTest | string {
  if (patternCost(pattern) > MAX_REGEX_COST) return 'The regular expression repeats too much.'
  const engine = compileRe2(pattern)
  return typeof engine === 'string' ? engine : rememberTexts((text) => engine.test(text))
}
