import { compiled, igam, igamc, incbet, lgam, ndtr, ndtri } from 'cephes'
import { findQuantile } from './find-quantile.ts'

// The functions of the library are WebAssembly, which nothing may call before it is ready.
await compiled

// Here the tail is 1e-316. The library gives 0 from 28 deviations on (1e-172), and no number when the square overflows.
const FURTHEST = 38

/** Probability that a standard normal variable is at most `z`. */
export function normalCumulative (z: number): number {
  if (Math.abs(z) > FURTHEST) return Number(z > 0)
  return ndtr(z)
}

/** Density of the standard normal distribution at `z`. */
export function normalDensity (z: number): number {
  return Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI)
}

/** The point below which a standard normal variable lies with `probability`, which must be above 0 and below 1. */
export function normalQuantile (probability: number): number {
  return ndtri(probability)
}

/** Probability that a standard normal variable is at least as far from zero as `z`. */
export function normalTwoSided (z: number): number {
  return 2 * normalCumulative(-Math.abs(z))
}

// From here on the t and the normal distribution differ by less than 1e-6 of the tail, which no reader can tell.
const NEARLY_NORMAL = 1e6

/**
 * Probability that a Student t variable is at least as far from zero as `t` (Abramowitz and Stegun, 26.5.27).
 * Degrees of freedom need not be whole (Satterthwaite).
 */
export function studentTwoSided (t: number, degreesOfFreedom: number): number {
  if (degreesOfFreedom > NEARLY_NORMAL) return normalTwoSided(t)
  return incbet(degreesOfFreedom / 2, 0.5, degreesOfFreedom / (degreesOfFreedom + t * t))
}

/** Half width, in standard errors, of the central interval that holds a Student t variable with `level`. */
export function studentHalfWidth (level: number, degreesOfFreedom: number): number {
  const normal = normalQuantile((1 + level) / 2)
  if (degreesOfFreedom > NEARLY_NORMAL) return normal
  return findQuantile((t) => 1 - studentTwoSided(t, degreesOfFreedom), level,
    { guess: normal, scale: 1, lowest: 0 })
}

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

/** Probability that a gamma variable of this shape and of rate 1 is at most `x`. The shape must be above zero. */
export function gammaCumulative (x: number, shape: number): number {
  if (x <= 0) return 0
  if (shape < LARGE_GAMMA_SHAPE) return isBeyondDoubles(x, shape) ? Number(x > shape) : igam(shape, x)
  return edgeworthCumulative((x - shape) / Math.sqrt(shape), 2 / Math.sqrt(shape), 6 / shape)
}

/** Probability that a chi-square variable with `degreesOfFreedom` is at least `x`: a p-value. */
export function chiSquareUpper (x: number, degreesOfFreedom: number): number {
  if (x <= 0) return 1
  const shape = degreesOfFreedom / 2
  return isBeyondDoubles(x / 2, shape) ? Number(x / 2 < shape) : igamc(shape, x / 2)
}

// The library throws where its leading factor, x^a e^-x / gamma(a), would underflow. There the answer is 0 or 1.
function isBeyondDoubles (x: number, shape: number): boolean {
  return shape * Math.log(x) - x - lgam(shape) < -700
}

/** Natural logarithm of the gamma function, for a number above zero. */
export function logGamma (x: number): number {
  return lgam(x)
}

/**
 * Smaller shape of a beta distribution from which it is computed by its Edgeworth expansion.
 *
 * Near the mean the continued fractions of the library lose digits as the shapes grow (2 % at 1e7, all at 1e9), while
 * the error of the expansion shrinks as shape^-1.5: below 1e-8 from here on, measured against R.
 */
const LARGE_BETA_SHAPE = 1e5

/**
 * The same for a gamma distribution, whose series takes the library ever longer (0.2 ms at 1e9). The error is below
 * 1e-7 from here on.
 */
const LARGE_GAMMA_SHAPE = 2e4

/**
 * Probability below `z` standard deviations of a nearly normal distribution: the Edgeworth expansion with the terms of
 * skewness and excess kurtosis (Abramowitz and Stegun, 26.2.48).
 */
function edgeworthCumulative (z: number, skewness: number, excessKurtosis: number): number {
  const normal = normalCumulative(z)
  if (normal === 0 || normal === 1) return normal
  const square = z * z
  const second = square - 1
  const third = z * (square - 3)
  const fifth = z * (square * square - 10 * square + 15)
  const correction = skewness / 6 * second + excessKurtosis / 24 * third + skewness * skewness / 72 * fifth
  return Math.min(1, Math.max(0, normal - normalDensity(z) * correction))
}
