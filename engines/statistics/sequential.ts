import type { Sample } from './variant-statistics.ts'
import { ratioInterval } from './ratio-interval.ts'

/** Answers that may be looked at every day, and acted upon at any look. */
export interface SequentialComparison {
  /** Chance, without any difference, that *some* look ever shows a value as small. `null` without variance. */
  pValue: number | null
  /** The same among all comparisons of all primary metrics. */
  adjustedPValue?: number | null
  /** Confidence sequence of variant - baseline: all looks together hold the true value with the level. */
  absoluteInterval: [lower: number, upper: number] | null
  relativeInterval: [lower: number, upper: number] | null
}

/** How the sequential method is tuned. Fixed before the data are seen, or the promise is lost. */
export interface SequentialTuning {
  /** Joint confidence level of all looks, for example 0.95. */
  level: number
  /** Number of people, both variants together, at which the interval is narrowest. */
  tunedFor: number
}

/**
 * Asymptotic confidence sequence with a normal mixture (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
 * central limit theory and asymptotic confidence sequences", Annals of Statistics 2024), applied to the difference of
 * means; the same bound as the mixture sequential ratio test of Johari, Koomen, Pekelis and Walsh ("Always valid
 * inference", Operations Research 2022) with the estimated variance put in:
 *
 *   likelihood ratio = exp(z^2 / 2 * N rho^2 / (1 + N rho^2)) / sqrt(1 + N rho^2)
 *
 * for N people and z standard errors. The p-value is one over it; the interval holds the values not yet refuted.
 */
export function compareSequentially (
  variant: Sample, baseline: Sample, tuning: SequentialTuning
): SequentialComparison {
  const own = { mean: variant.mean, squaredError: variant.cautiousSquaredError }
  const other = { mean: baseline.mean, squaredError: baseline.cautiousSquaredError }
  const squaredError = own.squaredError + other.squaredError
  if (squaredError === 0) return { pValue: null, absoluteInterval: null, relativeInterval: null }
  const weight = (variant.size + baseline.size) * mixtureVariance(tuning)
  const alpha = 1 - tuning.level
  const difference = own.mean - other.mean
  // The number of standard errors at which the likelihood ratio reaches 1 / alpha.
  const width = Math.sqrt(2 * (1 + weight) / weight * (Math.log1p(weight) / 2 - Math.log(alpha)))
  const half = width * Math.sqrt(squaredError)
  return {
    pValue: Math.min(1, Math.exp(Math.log1p(weight) / 2 - difference ** 2 / squaredError * weight / (1 + weight) / 2)),
    absoluteInterval: [difference - half, difference + half],
    relativeInterval: ratioInterval(own, other, width)
  }
}

/** rho^2 that makes the interval narrowest at `tunedFor` people, to a close approximation (same paper, appendix). */
function mixtureVariance ({ level, tunedFor }: SequentialTuning): number {
  const bits = -2 * Math.log(1 - level)
  return (bits + Math.log(bits + 1)) / tunedFor
}
