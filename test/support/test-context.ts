/** The part of tap's `t` that is needed to clean up after a test. */
export interface TestContext {
  teardown (run: () => unknown): unknown
}
