import { isExactNumber } from '../../../platform/http-body/exact-number.ts'
import { type CompileTest, type ValueTest } from './property-test.ts'
import { propertyText } from './property-text.ts'

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
