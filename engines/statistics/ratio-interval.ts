/** A mean and its squared standard error. */
export interface Estimate {
  mean: number
  squaredError: number
}

// A ratio to a mean closer to zero than this many standard errors may be anything, of either sign. For a small
// conversion rate it takes nine conversions to be further away.
const DISTANCE_FROM_ZERO = 3

/**
 * Interval of variant / baseline - 1: all lifts r for which variant - (1 + r) * baseline is within `width` standard
 * errors of zero (Fieller, "Some problems in interval estimation", 1954).
 *
 * Not the delta method, its straight-line approximation: that one can hold zero when the interval of the difference
 * does not. This one holds zero exactly when the difference's does.
 *
 * @param width  half width in standard errors, for example 1.96
 * @returns `null` when the baseline is not clearly above zero.
 */
export function ratioInterval (variant: Estimate, baseline: Estimate, width: number): [number, number] | null {
  const distance = Math.max(width, DISTANCE_FROM_ZERO)
  if (baseline.mean <= distance * Math.sqrt(baseline.squaredError)) return null
  if (variant.squaredError + baseline.squaredError === 0) return null
  // Divided by the square of the baseline, so that neither large nor tiny quantities overflow.
  const ratio = variant.mean / baseline.mean
  const own = (width / baseline.mean) ** 2 * variant.squaredError
  const other = (width / baseline.mean) ** 2 * baseline.squaredError
  const half = Math.sqrt(own + ratio * ratio * other - own * other)
  return [(ratio - half) / (1 - other) - 1, (ratio + half) / (1 - other) - 1]
}
