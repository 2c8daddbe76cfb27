import type { BayesianComparison } from './bayesian.ts'
import type { TestOutcome } from './frequentist.ts'
import type { SequentialComparison } from './sequential.ts'
import type { MetricKind } from './variant-statistics.ts'

/** Everything known of one metric of an experiment. `docs/change/experiment-statistics.md` explains each number. */
export interface MetricAnalysis {
  kind: MetricKind
  /** Key of the variant that all others are compared with. */
  baseline: string
  /** In the order they were given. */
  variants: VariantAnalysis[]
  /** Key of the variant most likely to be best. */
  leader: string
  significant: boolean
  significanceCode: SignificanceCode
  /** Expected loss of choosing the leader, in the metric's unit; `null` without data. */
  expectedLoss: number | null
  /**
   * Two-sided p-value behind the verdict: leader against baseline, or the best other variant when the baseline leads;
   * adjusted for the number of comparisons. `null` without data or variance.
   */
  pValue: number | null
  /** How many times more than Poisson the counts vary (1 for other kinds). */
  dispersion: number
  /** Of every interval here but the inner ones, for example 0.95. */
  confidenceLevel: number
  /** Of the inner intervals: 0.5. */
  innerLevel: number
}

export interface VariantAnalysis {
  key: string
  exposed: number
  measured: number
  sum: number
  /** Conversion rate, events per person or mean value; `null` when nobody was measured. */
  mean: number | null
  /** Of `mean`. `null` when there is too little to tell. */
  standardError: number | null
  /** Probability to be the best of all. They add up to 1; a variant without data gets an equal share. */
  probability: number
  /** Mean of max(best other - this, 0), in the metric's unit. */
  expectedLoss: number | null
  /** Bayesian interval of the true rate or mean. */
  credibleInterval: [lower: number, upper: number] | null
  /** The same at 50 %. */
  innerCredibleInterval: [lower: number, upper: number] | null
  /** Against the baseline; `null` for the baseline itself, and when either has too little data. */
  comparison: VariantComparison | null
}

export interface VariantComparison {
  /** variant - baseline. */
  absoluteLift: number
  /** variant / baseline - 1; `null` when the baseline is not above zero. */
  relativeLift: number | null
  bayesian: BayesianComparison
  frequentist: TestOutcome & {
    /** `pValue` after Holm's adjustment for the number of variants compared. */
    adjustedPValue: number | null
    /** Whether there is enough data for the approximations: 5 successes and 5 failures (5 events, 5 values) each. */
    reliable: boolean
  }
  sequential: SequentialComparison
}

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
