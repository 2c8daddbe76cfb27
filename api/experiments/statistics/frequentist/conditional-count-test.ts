import { type Sample } from '../build-samples.ts'
import { betaCumulative, betaQuantile } from '../distributions/beta.ts'
import { normalQuantile } from '../distributions/normal.ts'
import { type TestOutcome } from './test-outcome.ts'

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
