import { compiled, incbet } from 'cephes'
import { edgeworthCumulative, LARGE_BETA_SHAPE } from './edgeworth-cumulative.ts'
import { findQuantile } from './find-quantile.ts'

await compiled

/** Mean, standard deviation, skewness and excess kurtosis of a beta distribution. */
export function betaMoments (alpha: number, beta: number) {
  const total = alpha + beta
  const product = alpha * beta
  return {
    mean: alpha / total,
    standardDeviation: Math.sqrt(product / (total + 1)) / total,
    skewness: 2 * (beta - alpha) * Math.sqrt(total + 1) / ((total + 2) * Math.sqrt(product)),
    excessKurtosis: 6 * ((alpha - beta) ** 2 * (total + 1) - product * (total + 2)) /
      (product * (total + 2) * (total + 3))
  }
}

/**
 * Probability that a Beta(alpha, beta) variable is at most `x`. Both shapes must be above zero, whole or not.
 * Relative error below 1e-8 while both shapes are below 1e6, and 3e-6 at the worst (one shape small, the other 1e9).
 */
export function betaCumulative (x: number, alpha: number, beta: number): number {
  if (x <= 0) return 0
  if (x >= 1) return 1
  if (Math.min(alpha, beta) < LARGE_BETA_SHAPE) return incbet(alpha, beta, x)
  const { mean, standardDeviation, skewness, excessKurtosis } = betaMoments(alpha, beta)
  return edgeworthCumulative((x - mean) / standardDeviation, skewness, excessKurtosis)
}

/** The point below which a Beta(alpha, beta) variable lies with `probability`. */
export function betaQuantile (probability: number, alpha: number, beta: number): number {
  const { mean, standardDeviation } = betaMoments(alpha, beta)
  return findQuantile((x) => betaCumulative(x, alpha, beta), probability,
    { guess: mean, scale: standardDeviation, lowest: 0, highest: 1 })
}
