/** Tells whether a property value passes; `nowMs` (Unix, milliseconds) is the time of the request. */
export type ValueTest = (value: unknown, nowMs: number) => boolean

/** One operator with its filter value, compiled. */
export interface PropertyTest {
  test: ValueTest
  /** The answer when the property does not exist: negated operators are true then, all others false. */
  whenAbsent: boolean
}

/** Turns the `value` of a filter into a test; `invalid` reports what is wrong with the value. */
export type CompileTest = (value: unknown, context: CompileTestContext) => PropertyTest

export interface CompileTestContext {
  /** IANA name of the project's time zone; dates without an offset are read in it. */
  timezone: string
  /**
   * Called with a sentence when the filter value makes no sense for the operator. On write it throws; for a stored
   * flag it does nothing, because the test compiled then is one that never passes.
   */
  invalid: (message: string, code?: 'invalid' | 'invalid_regex') => void
}

/** A test that never passes, for filter values that make no sense. */
export const NEVER: PropertyTest = { test: () => false, whenAbsent: false }
