import type { Sample } from './variant-statistics.ts'
import { betaCumulative, betaQuantile, normalQuantile, normalTwoSided, studentHalfWidth, studentTwoSided } from './distributions.ts'
import { ratioInterval } from './ratio-interval.ts'

/** What a test of "no difference" gives, for a variant against the baseline. */
export interface TestOutcome {
  test: 'two-proportion-z' | 'conditional-binomial' | 'welch-t'
  /** z or t; `null` for the exact test, which needs none, and when the values do not vary. */
  statistic: number | null
  degreesOfFreedom: number | null
  /** Two-sided. `null` when the values do not vary at all, so that nothing tells how far chance reaches. */
  pValue: number | null
  /** Confidence interval of variant - baseline. */
  absoluteInterval: [lower: number, upper: number] | null
  /** Confidence interval of variant / baseline - 1; `null` when the baseline may be zero. */
  relativeInterval: [lower: number, upper: number] | null
}

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

/**
 * Exact comparison of two rates of events: given the total number of events, the variant's share of them is binomial,
 * with its share of the people as probability (Przyborowski and Wilenski 1940). The p-value is twice the smaller tail,
 * the interval of the ratio that of Clopper and Pearson, as in R's `poisson.test`; the two always agree.
 *
 * Counts that vary `dispersion` times more than Poisson are divided by it first (a quasi-Poisson); the binomial tails
 * are incomplete beta functions, which do not need whole numbers.
 */
export function testConditionalCounts (
  variant: Sample, baseline: Sample, level: number, dispersion = 1
): TestOutcome {
  const own = variant.sum / dispersion
  const other = baseline.sum / dispersion
  const share = variant.size / (variant.size + baseline.size)
  const difference = variant.mean - baseline.mean
  const error = Math.sqrt(variant.squaredError + baseline.squaredError)
  const z = normalQuantile((1 + level) / 2)
  return {
    test: 'conditional-binomial',
    statistic: null,
    degreesOfFreedom: null,
    pValue: Math.min(1, 2 * Math.min(chanceOfAtMost(own, other, share), chanceOfAtMost(other, own, 1 - share))),
    absoluteInterval: error > 0 ? [difference - z * error, difference + z * error] : null,
    relativeInterval: other > 0 ? rateRatioInterval(own, other, level, baseline.size / variant.size) : null
  }
}

/** Probability of at most `own` events among `own + other` that each fall here with probability `share`. */
function chanceOfAtMost (own: number, other: number, share: number): number {
  return other === 0 ? 1 : betaCumulative(1 - share, other, own + 1)
}

function rateRatioInterval (own: number, other: number, level: number, scale: number): [lower: number, upper: number] {
  const low = own === 0 ? 0 : betaQuantile((1 - level) / 2, own, other + 1)
  const high = betaQuantile((1 + level) / 2, own + 1, other)
  return [scale * low / (1 - low) - 1, scale * high / (1 - high) - 1]
}

/** Welch's t test with the degrees of freedom of Satterthwaite. R: `t.test(x, y)`. */
export function testWelch (variant: Sample, baseline: Sample, level: number): TestOutcome {
  const squaredError = variant.squaredError + baseline.squaredError
  if (squaredError === 0) {
    return {
      test: 'welch-t', statistic: null, degreesOfFreedom: null, pValue: null, absoluteInterval: null, relativeInterval: null
    }
  }
  // Shares instead of squares of the errors: those underflow for quantities below 1e-80.
  const share = variant.squaredError / squaredError
  const degreesOfFreedom = 1 / (share ** 2 / (variant.size - 1) + (1 - share) ** 2 / (baseline.size - 1))
  const difference = variant.mean - baseline.mean
  const error = Math.sqrt(squaredError)
  const statistic = difference / error
  const t = studentHalfWidth(level, degreesOfFreedom)
  return {
    test: 'welch-t',
    statistic,
    degreesOfFreedom,
    pValue: studentTwoSided(statistic, degreesOfFreedom),
    absoluteInterval: [difference - t * error, difference + t * error],
    relativeInterval: ratioInterval(variant, baseline, t)
  }
}
