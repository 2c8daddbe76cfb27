import { compiled, ndtr, ndtri } from 'cephes'

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
