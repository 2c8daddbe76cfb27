import { type CompileTest, type PropertyTest } from './property-test.ts'
import { lowerAscii, propertyText } from './property-text.ts'

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
