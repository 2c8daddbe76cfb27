import { compiled, incbet } from 'cephes'
import { findQuantile } from './find-quantile.ts'
import { normalQuantile, normalTwoSided } from './normal.ts'

await compiled

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
