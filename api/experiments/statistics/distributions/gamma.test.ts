import fc from 'fast-check'
import t from 'tap'
import { assertNear } from '../testing/assert-near.ts'
import { findQuantile } from './find-quantile.ts'
import { chiSquareUpper, gammaCumulative, logGamma } from './gamma.ts'

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
