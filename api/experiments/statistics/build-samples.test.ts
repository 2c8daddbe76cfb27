import t from 'tap'
import { buildSamples } from './build-samples.ts'
import { assertNear } from './testing/assert-near.ts'

t.test('sums become a mean and its squared error', async (t) => {
  // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, deviations squared 32, variance 32 / 7
  const { samples } = buildSamples('sum', [{ key: 'a', exposed: 8, sum: 40, sumOfSquares: 232 }], 'estimated')

  assertNear(t, samples[0]?.mean ?? null, 5)
  assertNear(t, samples[0]?.squaredError ?? null, 32 / 7 / 8)
})

t.test('a mean is taken over the people who have a value', async (t) => {
  const { samples } = buildSamples('mean', [{ key: 'a', exposed: 100, measured: 8, sum: 40, sumOfSquares: 232 }], 'estimated')

  t.match(samples[0], { size: 8, mean: 5 })
})

t.test('the dispersion of counts is the variance within variants over the mean', async (t) => {
  // Two variants of different means, each with variance 3 times its mean: the difference of means adds nothing.
  const variants = [100, 200].map((sum) => ({
    key: String(sum), exposed: 100, sum, sumOfSquares: 99 * 3 * sum / 100 + sum * sum / 100
  }))

  assertNear(t, buildSamples('count', variants, 'estimated').dispersion, 3)
  t.equal(buildSamples('count', variants, 'poisson').dispersion, 1)
  assertNear(t, buildSamples('count', variants, 'estimated').samples[0]?.squaredError ?? null, 3 * 1 / 100)
})

t.test('counts are never taken for more even than Poisson', async (t) => {
  const variants = [{ key: 'a', exposed: 100, sum: 100, sumOfSquares: 100 }, { key: 'b', exposed: 0, sum: 0 }]

  t.equal(buildSamples('count', variants, 'estimated').dispersion, 1)
})

t.test('a constant value has no variance, whatever the rounding', async (t) => {
  for (const value of [0.1, 1e9 + 0.1, 1e-9 / 3]) {
    const exposed = 1_000_000
    const variant = { key: 'a', exposed, sum: exposed * value, sumOfSquares: exposed * value * value }

    t.equal(buildSamples('sum', [variant], 'estimated').samples[0]?.squaredError, 0)
  }
})

t.test('a variant too small to say anything has no sample', async (t) => {
  const none = { key: 'a', exposed: 0, sum: 0, sumOfSquares: 0 }
  const one = { key: 'a', exposed: 1, sum: 1, sumOfSquares: 1 }

  t.same(buildSamples('funnel', [none], 'estimated').samples, [null])
  t.same(buildSamples('count', [none], 'estimated').samples, [null])
  t.same(buildSamples('sum', [one], 'estimated').samples, [null])
})
