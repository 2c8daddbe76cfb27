import { normalCumulative, normalDensity } from './normal.ts'

/**
 * Smaller shape of a beta distribution from which it is computed by its Edgeworth expansion.
 *
 * Near the mean the continued fractions of the library lose digits as the shapes grow (2 % at 1e7, all at 1e9), while
 * the error of the expansion shrinks as shape^-1.5: below 1e-8 from here on, measured against R.
 */
export const LARGE_BETA_SHAPE = 1e5

/**
 * The same for a gamma distribution, whose series takes the library ever longer (0.2 ms at 1e9). The error is below
 * 1e-7 from here on.
 */
export const LARGE_GAMMA_SHAPE = 2e4

/**
 * Probability below `z` standard deviations of a nearly normal distribution: the Edgeworth expansion with the terms of
 * skewness and excess kurtosis (Abramowitz and Stegun, 26.2.48).
 */
export function edgeworthCumulative (z: number, skewness: number, excessKurtosis: number): number {
  const normal = normalCumulative(z)
  if (normal === 0 || normal === 1) return normal
  const square = z * z
  const second = square - 1
  const third = z * (square - 3)
  const fifth = z * (square * square - 10 * square + 15)
  const correction = skewness / 6 * second + excessKurtosis / 24 * third + skewness * skewness / 72 * fifth
  return Math.min(1, Math.max(0, normal - normalDensity(z) * correction))
}
