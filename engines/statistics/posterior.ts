import { betaCumulative, betaMoments, gammaCumulative, normalCumulative } from './distributions.ts'
import { findQuantile } from './find-quantile.ts'

/** Posterior distribution of a variant's true rate or mean. */
export interface Posterior {
  family: 'beta' | 'gamma' | 'normal'
  mean: number
  standardDeviation: number
  lowest: number
  highest: number
  /** Density up to a constant factor (1 at a mode), which keeps all digits at a billion observations. */
  density: (x: number) => number
  cumulative: (x: number) => number
  /** Ends of panels that hold all but 1e-12 of the probability, narrow where it is. */
  breakpoints: number[]
}

// In standard deviations from the mean. A normal tail ends by 9; the exponential one of a rare event reaches further.
const NORMAL_STEPS = [0, 1.5, 3, 5, 9]
const SKEWED_STEPS = [0, 1.5, 3, 5, 8, 12, 20, 36]

/** Conversion rate after `conversions` of `size`, from the uniform prior Beta(1, 1). */
export function buildBetaPosterior (conversions: number, size: number): Posterior {
  const alpha = conversions + 1
  const beta = size - conversions + 1
  const { mean, standardDeviation } = betaMoments(alpha, beta)
  const mode = size > 0 ? conversions / size : 0.5
  return {
    family: 'beta',
    mean,
    standardDeviation,
    lowest: 0,
    highest: 1,
    density: (x) => Math.exp(
      logRatio(conversions, x - mode, mode) + logRatio(size - conversions, mode - x, 1 - mode)),
    cumulative: (x) => betaCumulative(x, alpha, beta),
    breakpoints: spread(mean, standardDeviation, SKEWED_STEPS, 0, 1)
  }
}

/**
 * Shape of Jeffreys' prior of a Poisson rate (Gelman et al., "Bayesian Data Analysis", third edition, 2.8), whose
 * one-sided chances are about as frequent as they say. A flat one (shape 1) adds `dispersion` events to each variant:
 * much for a small one and little for a large, so that the small one looks best too often.
 */
const JEFFREYS_SHAPE = 1 / 2

/**
 * Events per person after `events` of `size` people, from Jeffreys' prior. Counts that vary `dispersion` times more
 * than Poisson carry that much less information, so both are divided by it (a quasi-likelihood).
 */
export function buildGammaPosterior (events: number, size: number, dispersion = 1): Posterior {
  const rate = size / dispersion
  const shape = events / dispersion + JEFFREYS_SHAPE
  // Below shape 1 there is no mode: the density has a pole at zero.
  const mode = (shape - 1) / rate
  return {
    family: 'gamma',
    mean: shape / rate,
    standardDeviation: Math.sqrt(shape) / rate,
    lowest: 0,
    highest: Infinity,
    density: shape < 1
      ? (x) => Math.exp((shape - 1) * Math.log(rate * x) - rate * x)
      : (x) => Math.exp(logRatio(shape - 1, x - mode, mode) - rate * (x - mode)),
    cumulative: (x) => gammaCumulative(rate * x, shape),
    breakpoints: spread(shape / rate, Math.sqrt(shape) / rate, SKEWED_STEPS, 0, Infinity)
  }
}

/** Mean of a quantity, from a flat prior, its variance taken as known. */
export function buildNormalPosterior (mean: number, squaredError: number): Posterior {
  // Values without any variance would give a point; a billionth of the mean is as good as one, and divides.
  const standardDeviation = Math.max(Math.sqrt(squaredError), Math.abs(mean) * 1e-9, 1e-200)
  return {
    family: 'normal',
    mean,
    standardDeviation,
    lowest: -Infinity,
    highest: Infinity,
    density: (x) => Math.exp(-(((x - mean) / standardDeviation) ** 2) / 2),
    cumulative: (x) => normalCumulative((x - mean) / standardDeviation),
    breakpoints: spread(mean, standardDeviation, NORMAL_STEPS, -Infinity, Infinity)
  }
}

/** Level of the inner intervals, drawn inside the wide ones: the true value is as likely to be within as outside. */
export const INNER_LEVEL = 0.5

/**
 * The central (equal-tailed) interval that holds the true value with probability `level`: the quantiles at
 * (1 - level) / 2 and (1 + level) / 2 of the posterior (Gelman et al., "Bayesian Data Analysis", third edition, 2.3).
 */
export function credibleInterval (posterior: Posterior, level: number): [lower: number, upper: number] {
  const { mean: guess, standardDeviation: scale, lowest, highest, cumulative } = posterior
  const bound = (probability: number) => findQuantile(cumulative, probability, { guess, scale, lowest, highest })
  return [bound((1 - level) / 2), bound((1 + level) / 2)]
}

/** count * log((from + change) / from), without cancellation near the mode. */
function logRatio (count: number, change: number, from: number): number {
  return count === 0 ? 0 : count * Math.log1p(change / from)
}

function spread (mean: number, deviation: number, steps: readonly number[], lowest: number, highest: number): number[] {
  return steps.flatMap((step) => [mean - step * deviation, mean + step * deviation])
    .map((x) => Math.min(Math.max(x, lowest), highest))
}
