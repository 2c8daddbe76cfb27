import { type Sample } from '../build-samples.ts'
import { normalQuantile, normalTwoSided } from '../distributions/normal.ts'
import { ratioInterval } from '../ratio-interval.ts'
import { type TestOutcome } from './test-outcome.ts'

/**
 * Two-proportion z test. The p-value uses the *pooled* standard error (under "no difference" there is one rate), the
 * intervals the *unpooled* one. No continuity correction. R: `prop.test(x, n, correct = FALSE)`; its statistic is z^2.
 */
export function testTwoProportions (variant: Sample, baseline: Sample, level: number): TestOutcome {
  const pooled = (variant.sum + baseline.sum) / (variant.size + baseline.size)
  const pooledError = Math.sqrt(pooled * (1 - pooled) * (1 / variant.size + 1 / baseline.size))
  const difference = variant.mean - baseline.mean
  const statistic = pooledError > 0 ? difference / pooledError : null

  const z = normalQuantile((1 + level) / 2)
  const error = Math.sqrt(variant.squaredError + baseline.squaredError)
  return {
    test: 'two-proportion-z',
    statistic,
    degreesOfFreedom: null,
    pValue: statistic === null ? null : normalTwoSided(statistic),
    absoluteInterval: error > 0 ? [difference - z * error, difference + z * error] : null,
    relativeInterval: ratioInterval(variant, baseline, z)
  }
}
