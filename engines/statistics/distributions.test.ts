import t from 'tap'
import fc from 'fast-check'
import { assertNear } from './testing/assert-near.ts'
import { betaCumulative, betaMoments, betaQuantile, chiSquareUpper, gammaCumulative, logGamma, normalCumulative, normalDensity, normalQuantile, normalTwoSided, studentHalfWidth, studentTwoSided } from './distributions.ts'
import { findQuantile } from './find-quantile.ts'

t.test('the normal distribution agrees with R', async (t) => {
  // R 4.2: pnorm(-c(1, 1.96, 5, 8, 20)), qnorm(0.975), dnorm(0)
  const expected = [0.158655253931457, 0.0249978951482204, 2.86651571879194e-7, 6.22096057427178e-16]
  assertNear(t, [-1, -1.96, -5, -8].map(normalCumulative), expected, 1e-13)
  assertNear(t, normalCumulative(-20), 2.75362411860623e-89)
  assertNear(t, normalQuantile(0.975), 1.95996398454005, 1e-13)
  assertNear(t, normalDensity(0), 0.398942280401433, 1e-13)
  assertNear(t, normalTwoSided(-1.96), 2 * 0.0249978951482204, 1e-13)
})

t.test('the normal distribution stays a probability at any distance', async (t) => {
  for (const z of [38.5, 1e5, 1e200, Infinity]) {
    t.equal(normalCumulative(z), 1)
    t.equal(normalCumulative(-z), 0)
    t.equal(normalTwoSided(z), 0)
  }
})

t.test('the t distribution agrees with the critical values of the tables', async (t) => {
  // NIST/SEMATECH e-Handbook, 1.3.6.7.2 (12.706, 4.303, 2.571, 2.228, 2.042); digits from R: qt(0.975, df)
  const widths = [1, 2, 5, 10, 30, 120].map((degrees) => studentHalfWidth(0.95, degrees))
  assertNear(t, widths, [12.7062047361747, 4.30265272974946, 2.57058183563631, 2.22813885198627, 2.04227245630124,
    1.97993040508242])
})

t.test('two-sided tails of the t distribution agree with R', async (t) => {
  // R 4.2: 2 * pt(-2.5, 7)
  assertNear(t, studentTwoSided(-2.5, 7), 0.0409922185857529)
  t.equal(studentTwoSided(0, 7), 1)
})

t.test('with very many degrees of freedom the t distribution is the normal one', async (t) => {
  assertNear(t, studentTwoSided(1.96, 2e9), 2 * 0.0249978951482204)
  assertNear(t, studentTwoSided(1.96, 9.9e5), studentTwoSided(1.96, 1.1e6), 1e-5)
  assertNear(t, studentHalfWidth(0.95, 2e9), 1.95996398454005)
})

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

/** As credible intervals invert it. */
const gammaQuantile = (p: number, shape: number): number =>
  findQuantile((x) => gammaCumulative(x, shape), p, { guess: shape, scale: Math.sqrt(shape), lowest: 0 })

t.test('the gamma distribution agrees with R', async (t) => {
  // R 4.2: pgamma(15, 11), qgamma(c(0.025, 0.975), 11), qgamma(c(0.025, 0.975), 1e7)
  assertNear(t, gammaCumulative(15, 11), 0.881535588470985)
  assertNear(t, [0.025, 0.975].map((p) => gammaQuantile(p, 11)), [5.49116036723684, 18.39035604201778])
  assertNear(t, [0.025, 0.975].map((p) => gammaQuantile(p, 1e7)), [9993802.99688427, 10006198.8974216])
})

t.test('the gamma distribution agrees with R also for a billion events', async (t) => {
  // R 4.2: pgamma(c(99700, 100300, 101000), 1e5), pgamma(1e9 + 5e4, 1e9)
  const large = [99700, 100300, 101000].map((x) => gammaCumulative(x, 1e5))
  assertNear(t, large, [0.171417314514503, 0.828636311251208, 0.999191578487074], 1e-7)
  assertNear(t, gammaCumulative(1e9 + 5e4, 1e9), 0.943075043832984)
})

t.test('the chi-square tail agrees with the critical values of the tables', async (t) => {
  // NIST/SEMATECH e-Handbook, 1.3.6.7.4 (0.05 and 0.001, one and two degrees); R: pchisq(x, df, lower = FALSE)
  const tails = [chiSquareUpper(3.841459, 1), chiSquareUpper(10.83, 1), chiSquareUpper(13.82, 2)]
  assertNear(t, tails, [0.049999994653195726, 0.000998686379180259, 0.000997757796484312])
  t.equal(chiSquareUpper(0, 3), 1)
  t.equal(chiSquareUpper(1e9, 3), 0)
})

t.test('the logarithm of the gamma function is that of the factorial', async (t) => {
  assertNear(t, logGamma(11), Math.log(3_628_800), 1e-14)
})

t.test('the gamma distribution is a probability for any shape and any place', async (t) => {
  const exponent = (min: number, max: number) => fc.double({ min, max, noNaN: true }).map((power) => 10 ** power)
  fc.assert(fc.property(exponent(0, 9.3), exponent(-300, 300), (shape, x) => {
    const probability = gammaCumulative(x, shape)
    const tail = chiSquareUpper(x, Math.ceil(shape) % 40 + 1)
    return probability >= 0 && probability <= 1 && tail >= 0 && tail <= 1
  }), { seed: 1, numRuns: 2_000 })
  t.pass()
})
