import { RE2JS } from 're2js'
import { isExactNumber } from '../../platform/http-body/parse-json.ts'
import { type CompileTest, lowerAscii, NEVER, type PropertyTest, propertyText, type ValueTest } from './property-test.ts'

/** `exact`: the same text whatever the case, or one of several. */
export const compileExact: CompileTest = (value) => ({ test: equals(value), whenAbsent: false })

/** `is_not`: everything that is not `exact`, a missing property included. */
export const compileIsNot: CompileTest = (value) => {
  const test = equals(value)
  return { test: (actual, nowMs) => !test(actual, nowMs), whenAbsent: true }
}

/**
 * Booleans and the texts "true" and "false" have the same text and so are alike. A number never equals a boolean.
 * This is what the protocol calls property matching version 2, and what we tell SDKs that evaluate locally.
 */
function equals (expected: unknown): ValueTest {
  const test = equalsText(expected)
  const rounded = new Set((Array.isArray(expected) ? expected : [expected]).filter(mayBeRounded))
  if (rounded.size === 0) return test
  return (actual, nowMs) => test(actual, nowMs) || (isExactNumber(actual) && rounded.has(Number(actual.rawJSON)))
}

/** A filter is stored with doubles, so what it says of a longer number is only nearly what somebody wrote. */
function mayBeRounded (expected: unknown): boolean {
  return Number.isInteger(expected) && !Number.isSafeInteger(expected)
}

function equalsText (expected: unknown): ValueTest {
  if (!Array.isArray(expected)) {
    const text = propertyText(expected).toLowerCase()
    return (actual) => lowerText(actual) === text
  }
  // The protocol's odd case: no choice at all is read as "true".
  if (expected.length === 0) return (actual) => isTruthy(actual)
  const texts = new Set(expected.map((item) => propertyText(item).toLowerCase()))
  return (actual) => texts.has(lowerText(actual))
}

function lowerText (value: unknown): string {
  return propertyText(value).toLowerCase()
}

function isTruthy (value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isTruthy)
  return value === true || (typeof value === 'string' && value.toLowerCase() === 'true')
}

type CompareTexts = (actual: string, expected: string) => boolean

const contains: CompareTexts = (actual, expected) => actual.includes(expected)
const startsWith: CompareTexts = (actual, expected) => actual.startsWith(expected)
const endsWith: CompareTexts = (actual, expected) => actual.endsWith(expected)

export const compileContains = compileText(contains, false)
export const compileNotContains = compileText(contains, true)
export const compileStartsWith = compileText(startsWith, false)
export const compileNotStartsWith = compileText(startsWith, true)
export const compileEndsWith = compileText(endsWith, false)
export const compileNotEndsWith = compileText(endsWith, true)

/** `icontains_multi`: contains one of several texts. */
export const compileContainsAny = compileAnyText(false)
/** `not_icontains_multi`: contains none of several texts. */
export const compileContainsNone = compileAnyText(true)

function compileText (compare: CompareTexts, negated: boolean): CompileTest {
  return (value) => {
    const expected = lowerAscii(propertyText(value))
    return build((actual) => compare(actual, expected), negated)
  }
}

function compileAnyText (negated: boolean): CompileTest {
  return (value) => {
    const expected = (Array.isArray(value) ? value : [value]).map((item) => lowerAscii(propertyText(item)))
    return build((actual) => expected.some((text) => actual.includes(text)), negated)
  }
}

function build (passes: (actual: string) => boolean, negated: boolean): PropertyTest {
  return { test: (value) => passes(lowerAscii(propertyText(value))) !== negated, whenAbsent: negated }
}

export const compileRegex = compilePattern(false)
export const compileNotRegex = compilePattern(true)

/**
 * Longer texts match no pattern, positive or negated. The engine is linear in the text, but a client chooses the text
 * and somebody else the pattern: without a bound one request with a megabyte of overrides could hold the process.
 */
const MAX_REGEX_TEXT = 16_384

/** Patterns are compiled once and shared by all projects; the oldest leave when there are too many. */
const MAX_COMPILED = 2000
const compiled = new Map<string, RE2JS | null>()

/** Searched anywhere in the text. A pattern that does not compile passes nothing, positive or negated. */
function compilePattern (negated: boolean): CompileTest {
  return (value, { invalid }) => {
    const pattern = compileCached(propertyText(value))
    if (pattern === null) {
      invalid('The regular expression is not valid.', 'invalid_regex')
      return NEVER
    }
    const test = (actual: unknown): boolean => {
      const text = propertyText(actual)
      return text.length <= MAX_REGEX_TEXT && pattern.test(text) !== negated
    }
    return { test, whenAbsent: negated }
  }
}

function compileCached (pattern: string): RE2JS | null {
  const known = compiled.get(pattern)
  if (known !== undefined) return known
  const fresh = compileOrNull(pattern)
  if (compiled.size >= MAX_COMPILED) compiled.delete(compiled.keys().next().value!)
  compiled.set(pattern, fresh)
  return fresh
}

function compileOrNull (pattern: string): RE2JS | null {
  try {
    return RE2JS.compile(pattern)
  } catch {
    // Whatever the engine does not take is an invalid pattern; the caller says so.
    return null
  }
}
