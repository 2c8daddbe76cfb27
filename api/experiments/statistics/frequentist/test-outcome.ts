/** What a test of "no difference" gives, for a variant against the baseline. */
export interface TestOutcome {
  test: 'two-proportion-z' | 'conditional-binomial' | 'welch-t'
  /** z or t; `null` for the exact test, which needs none, and when the values do not vary. */
  statistic: number | null
  degreesOfFreedom: number | null
  /** Two-sided. `null` when the values do not vary at all, so that nothing tells how far chance reaches. */
  pValue: number | null
  /** Confidence interval of variant - baseline. */
  absoluteInterval: [lower: number, upper: number] | null
  /** Confidence interval of variant / baseline - 1; `null` when the baseline may be zero. */
  relativeInterval: [lower: number, upper: number] | null
}
