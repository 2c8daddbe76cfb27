import { RE2JS } from 're2js'
import { NEVER, type CompileTest } from './property-test.ts'
import { propertyText } from './property-text.ts'

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
