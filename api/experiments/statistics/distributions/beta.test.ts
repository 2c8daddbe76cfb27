import fc from 'fast-check'
import t from 'tap'
import { assertNear } from '../testing/assert-near.ts'
import { betaCumulative, betaMoments, betaQuantile } from './beta.ts'

t.test('the beta distribution agrees with R', async (t) => {
  // R 4.2: pbeta(0.12, 11, 91), qbeta(c(0.025, 0.975), 11, 91), qbeta(c(0.025, 0.975), 1e6 + 1, 9e6 + 1)
  assertNear(t, betaCumulative(0.12, 11, 91), 0.679278769492679)
  assertNear(t, [0.025, 0.975].map((p) => betaQuantile(p, 11, 91)), [0.055637223835303, 0.174552826077119])
  const large = [0.025, 0.975].map((p) => betaQuantile(p, 1e6 + 1, 9e6 + 1))
  assertNear(t, large, [0.0998142172397858, 0.1001860943045851])
})

t.test('the beta distribution agrees with R also for hundreds of millions of observations', async (t) => {
  // R 4.2: pbeta(c(0.499, 0.5, 0.501, 0.503), 1.2e5, 1.2e5), pbeta(c(0.0995, 0.1, 0.1005), 1.1e5, 9.9e5),
  // pbeta(c(0.1, 0.10001), 1e8 + 1, 9e8 + 1)
  const symmetric = [0.499, 0.5, 0.501, 0.503].map((x) => betaCumulative(x, 1.2e5, 1.2e5))
  assertNear(t, symmetric, [0.163593448972636, 0.5, 0.836406551027363, 0.998355816965066], 1e-7)
  const skewed = [0.0995, 0.1, 0.1005].map((x) => betaCumulative(x, 1.1e5, 9.9e5))
  assertNear(t, skewed, [0.0400795122195003, 0.500338112537921, 0.9596188286200866], 1e-7)
  const huge = [0.1, 0.10001].map((x) => betaCumulative(x, 1e8 + 1, 9e8 + 1))
  assertNear(t, huge, [0.499977572155516, 0.854059710391835])
})

t.test('moments of Beta(2, 3) are those of the textbook', async (t) => {
  // mean a / n, variance a b / (n^2 (n + 1)), skewness 2 (b - a) sqrt(n + 1) / ((n + 2) sqrt(a b)), excess -9/14
  const { mean, standardDeviation, skewness, excessKurtosis } = betaMoments(2, 3)
  assertNear(t, [mean, standardDeviation, skewness, excessKurtosis], [0.4, 0.2, 2 / 7, -9 / 14], 1e-14)
})

t.test('the beta distribution rises from 0 to 1 for shapes of any size, and its quantile inverts it', async (t) => {
  const shape = fc.double({ min: 0, max: 9.3, noNaN: true }).map((exponent) => 10 ** exponent)
  const place = fc.double({ min: -40, max: 40, noNaN: true })
  fc.assert(fc.property(shape, shape, place, place, (alpha, beta, one, other) => {
    const { mean, standardDeviation } = betaMoments(alpha, beta)
    const [low, high] = [Math.min(one, other), Math.max(one, other)].map((z) =>
      betaCumulative(mean + z * standardDeviation, alpha, beta)) as [number, number]
    return low >= 0 && high <= 1 && low <= high + 1e-6
  }), { seed: 1, numRuns: 2_000 })
  fc.assert(fc.property(shape, shape, fc.double({ min: 1e-4, max: 1 - 1e-4, noNaN: true }), (alpha, beta, p) => {
    return Math.abs(betaCumulative(betaQuantile(p, alpha, beta), alpha, beta) - p) < 1e-6
  }), { seed: 1, numRuns: 500 })
  t.pass()
})
