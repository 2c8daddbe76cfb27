import t from 'tap'
import { buildSamples, checkVariants, type MetricKind, type VariantStatistics } from './variant-statistics.ts'
import { assertNear } from './testing/assert-near.ts'

t.test('numbers that no data can give are refused with the variant and the field', async (t) => {
  const cases: [MetricKind, Partial<VariantStatistics>, RegExp][] = [
    ['funnel', { exposed: -1 }, /variant test: exposed/],
    ['funnel', { exposed: 1.5 }, /exposed/],
    ['funnel', { exposed: NaN }, /exposed/],
    ['funnel', { exposed: 10, sum: 11 }, /sum/],
    ['funnel', { exposed: 10, sum: 0.5 }, /sum/],
    ['funnel', { exposed: 10, measured: 11 }, /measured/],
    ['count', { exposed: 10, sum: -1 }, /sum/],
    ['count', { exposed: 0, sum: 3 }, /sum/],
    ['sum', { exposed: 10, sum: Infinity, squaredDeviations: 1 }, /sum/],
    ['sum', { exposed: 10, sum: 1 }, /squaredDeviations/],
    ['sum', { exposed: 10, sum: 10, squaredDeviations: -1 }, /squaredDeviations/],
    ['mean', { exposed: 10, sum: 10, squaredDeviations: NaN }, /squaredDeviations/]
  ]
  for (const [kind, fields, message] of cases) {
    t.throws(() => checkVariants(kind, [{ key: 'test', exposed: 0, sum: 0, ...fields }]), message, JSON.stringify(fields))
  }
  t.throws(() => checkVariants('funnel', []), /variants/)
  t.throws(() => checkVariants('funnel', [{ key: 'a', exposed: 1, sum: 1 }, { key: 'a', exposed: 1, sum: 1 }]), /keys/)
})

t.test('thin, negative and huge data are accepted', async (t) => {
  checkVariants('funnel', [{ key: 'a', exposed: 0, sum: 0 }])
  checkVariants('count', [{ key: 'a', exposed: 1e9, sum: 3e9, squaredDeviations: 2e10 }])
  checkVariants('sum', [{ key: 'a', exposed: 3, sum: -30, squaredDeviations: 0 }])
  t.pass()
})

t.test('sums become a mean and its squared error', async (t) => {
  // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, deviations squared 32, variance 32 / 7
  const { samples } = buildSamples('sum', [{ key: 'a', exposed: 8, sum: 40, squaredDeviations: 32 }])

  assertNear(t, samples[0]?.mean ?? null, 5)
  assertNear(t, samples[0]?.squaredError ?? null, 32 / 7 / 8)
})

t.test('a mean is taken over the people who have a value', async (t) => {
  const { samples } = buildSamples('mean', [{ key: 'a', exposed: 100, measured: 8, sum: 40, squaredDeviations: 32 }])

  t.match(samples[0], { size: 8, mean: 5 })
})

t.test('the dispersion of counts is the variance within variants over the mean', async (t) => {
  // Two variants of different means, each with variance 3 times its mean: the difference of means adds nothing.
  const variants = [100, 200].map((sum) => ({
    key: String(sum), exposed: 100, sum, squaredDeviations: 99 * 3 * sum / 100
  }))

  assertNear(t, buildSamples('count', variants).dispersion, 3)
  const atTheirWord = variants.map(({ squaredDeviations: _, ...variant }) => variant)
  t.equal(buildSamples('count', atTheirWord).dispersion, 1, 'without deviations, counts are Poisson')
  assertNear(t, buildSamples('count', variants).samples[0]?.squaredError ?? null, 3 * 1 / 100)
})

t.test('counts are never taken for more even than Poisson', async (t) => {
  const variants = [{ key: 'a', exposed: 100, sum: 100, squaredDeviations: 0 }, { key: 'b', exposed: 0, sum: 0 }]

  t.equal(buildSamples('count', variants).dispersion, 1)
})

t.test('a constant value has no variance, whatever the rounding', async (t) => {
  for (const value of [0.1, 1e9 + 0.1, 1e-9 / 3]) {
    const exposed = 1_000_000
    // Means of parts that differ in the last digit, added up by Chan's formula.
    const variant = { key: 'a', exposed, sum: exposed * value, squaredDeviations: exposed * (value * Number.EPSILON) ** 2 }

    t.equal(buildSamples('sum', [variant]).samples[0]?.squaredError, 0)
  }
})

t.test('a variant too small to say anything has no sample', async (t) => {
  const none = { key: 'a', exposed: 0, sum: 0, squaredDeviations: 0 }
  const one = { key: 'a', exposed: 1, sum: 1, squaredDeviations: 0 }

  t.same(buildSamples('funnel', [none]).samples, [null])
  t.same(buildSamples('count', [none]).samples, [null])
  t.same(buildSamples('sum', [one]).samples, [null])
})
