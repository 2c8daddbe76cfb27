import type { MetricKind } from './variant-statistics.ts'

/** The verdict on a metric, in the words that clients of the reference know. */
type SignificanceCode =
  'significant' | 'not_enough_exposure' | 'low_win_probability' | 'high_loss' | 'high_p_value'

/** Limits of the verdict; the defaults are those that users of the reference know (`analyse-metric.ts`). */
export interface SignificanceLimits {
  /** People each variant needs before anything is said. */
  minimumExposure: number
  /** Probability that the baseline, or all other variants together, must reach. */
  winProbability: number
  /** Expected loss a conversion rate must stay below, as a fraction of people. */
  expectedLoss: number
  /** Two-sided p-value that the other kinds must stay below. */
  pValue: number
}

/** What the verdict is taken from. */
export interface Evidence {
  kind: MetricKind
  /** Fewest people of any variant. */
  smallestExposure: number
  variantCount: number
  /** Probability that the baseline is the best of all. */
  baselineProbability: number
  /** Expected loss of the variant most likely to be best. `null` when it has no data. */
  leaderLoss: number | null
  /** p-value, adjusted for the number of comparisons, of the leader against the baseline. */
  leaderPValue: number | null
}

/** Checks in the order of the reference; the first that fails gives the code. */
export function decideSignificance (evidence: Evidence, limits: SignificanceLimits): SignificanceCode {
  const { kind, smallestExposure, variantCount, baselineProbability, leaderLoss, leaderPValue } = evidence
  if (variantCount < 2 || smallestExposure < limits.minimumExposure) return 'not_enough_exposure'
  const highest = Math.max(baselineProbability, 1 - baselineProbability)
  if (highest < limits.winProbability) return 'low_win_probability'
  if (kind === 'funnel') return leaderLoss === null || leaderLoss >= limits.expectedLoss ? 'high_loss' : 'significant'
  return leaderPValue === null || leaderPValue >= limits.pValue ? 'high_p_value' : 'significant'
}
