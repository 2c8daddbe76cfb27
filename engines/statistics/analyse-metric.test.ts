import fc from 'fast-check'
import t from 'tap'
import { adjustForComparisons, analyseMetric, ANALYSIS_DEFAULTS, type MetricData } from './analyse-metric.ts'
import { decideSignificance, type Evidence } from './decide-significance.ts'
import { assertNear } from './testing/assert-near.ts'
import type { MetricKind, VariantStatistics } from './variant-statistics.ts'

t.test('a funnel is analysed by every method at once', async (t) => {
  const analysis = analyseMetric({
    kind: 'funnel',
    variants: [{ key: 'control', exposed: 10_000, sum: 400 }, { key: 'test', exposed: 10_000, sum: 500 }]
  })

  t.match(analysis, { baseline: 'control', leader: 'test', significant: true, significanceCode: 'significant' })
  const [control, test] = analysis.variants
  t.match(control, { mean: 0.04, comparison: null })
  // R 4.2: qbeta(c(0.025, 0.975), 501, 9501), prop.test(c(500, 400), c(10000, 10000), correct = FALSE)
  assertNear(t, test?.credibleInterval ?? null, [0.0459012685949, 0.0544490948996])
  assertNear(t, test?.comparison?.absoluteLift ?? null, 0.01)
  assertNear(t, test?.comparison?.relativeLift ?? null, 0.25)
  assertNear(t, test?.comparison?.frequentist.pValue ?? null, 6.47337801014458e-4)
  assertNear(t, test?.comparison?.bayesian.chanceToBeatBaseline ?? null, test?.probability ?? null)
})

t.test('the baseline is the one named, else control, else the first', async (t) => {
  const variants = ['a', 'control', 'b'].map((key) => ({ key, exposed: 10, sum: 1 }))

  t.equal(analyseMetric({ kind: 'funnel', variants }).baseline, 'control')
  t.equal(analyseMetric({ kind: 'funnel', variants, baseline: 'b' }).baseline, 'b')
  t.equal(analyseMetric({ kind: 'funnel', variants: variants.slice(2) }).baseline, 'b')
  t.throws(() => analyseMetric({ kind: 'funnel', variants, baseline: 'c' }), /baseline/)
})

t.test('a variant without data is as likely to be best as any, and the rest shared by the data', async (t) => {
  const { variants, significanceCode } = analyseMetric({
    kind: 'count',
    variants: [
      { key: 'control', exposed: 1000, sum: 300 },
      { key: 'test', exposed: 1000, sum: 600 },
      { key: 'new', exposed: 0, sum: 0 }
    ]
  })

  t.equal(significanceCode, 'not_enough_exposure')
  assertNear(t, variants.map((variant) => variant.probability), [0, 2 / 3, 1 / 3], 1e-9)
  t.match(variants[2], { mean: null, expectedLoss: null, credibleInterval: null, comparison: null })
})

t.test('the loser is certain too: a clearly worse test is a significant result', async (t) => {
  const { leader, significanceCode, pValue } = analyseMetric({
    kind: 'sum',
    variants: [
      { key: 'control', exposed: 1000, sum: 5000, squaredDeviations: 4000 },
      { key: 'test', exposed: 1000, sum: 4500, squaredDeviations: 3750 }
    ]
  })

  t.match({ leader, significanceCode }, { leader: 'control', significanceCode: 'significant' })
  t.ok((pValue as number) < 1e-6)
})

t.test('many looks at noise among many variants are not a discovery', async (t) => {
  // Ten tests against control; the best of them has p = 0.02 alone.
  const sums = [500, 558, 505, 490, 500, 512, 497, 503, 509, 488, 495]
  const { variants } = analyseMetric({
    kind: 'count',
    variants: sums.map((sum, i) => ({ key: i === 0 ? 'control' : `test-${i}`, exposed: 5000, sum })),
    options: { minimumExposure: 1 }
  })

  const best = variants[1]?.comparison?.frequentist
  t.ok((best?.pValue as number) < 0.1)
  assertNear(t, best?.adjustedPValue ?? null, 10 * (best?.pValue as number))
})

t.test('thin and strange data give defined answers', async (t) => {
  const nothing = { exposed: 0, sum: 0, squaredDeviations: 0 }
  const same = { exposed: 500, sum: 1500, squaredDeviations: 0 }
  const cases: [string, MetricKind, Omit<VariantStatistics, 'key'>[]][] = [
    ['nobody', 'funnel', [nothing, nothing]],
    ['nobody in one', 'mean', [nothing, { exposed: 5, sum: 5, squaredDeviations: 4 }]],
    ['one person each', 'sum', [{ exposed: 1, sum: 3, squaredDeviations: 0 }, { exposed: 1, sum: 4, squaredDeviations: 0 }]],
    ['no variance', 'sum', [same, same]],
    ['no variance, another mean', 'sum', [same, { exposed: 500, sum: 2000, squaredDeviations: 0 }]],
    ['all zero', 'mean', [{ ...nothing, exposed: 500 }, { ...nothing, exposed: 500 }]],
    ['no conversions', 'funnel', [{ exposed: 500, sum: 0 }, { exposed: 500, sum: 0 }]],
    ['all convert', 'funnel', [{ exposed: 500, sum: 500 }, { exposed: 500, sum: 0 }]],
    ['no events', 'count', [{ exposed: 500, sum: 0 }, { exposed: 500, sum: 0 }]],
    ['one variant', 'count', [{ exposed: 500, sum: 10 }]],
    ['refunds', 'sum', [{ exposed: 500, sum: -100, squaredDeviations: 8980 }, { exposed: 500, sum: 10, squaredDeviations: 9000 }]],
    ['a billion', 'funnel', [{ exposed: 1e9, sum: 1e8 }, { exposed: 1e9, sum: 100_010_000 }]],
    ['a billion events', 'count', [{ exposed: 1e6, sum: 1e9 }, { exposed: 1e6, sum: 1_000_010_000 }]],
    ['a billion against ten', 'count', [{ exposed: 1e9, sum: 1e9 }, { exposed: 10, sum: 1 }]],
    ['large values', 'mean', [{ exposed: 100, sum: 1e150, squaredDeviations: 1e298 }, { ...nothing, exposed: 9 }]],
    ['21 variants', 'funnel', Array.from({ length: 21 }, (_, i) => ({ exposed: 300, sum: 20 + i }))]
  ]
  for (const [name, kind, sums] of cases) {
    t.same(findProblems({ kind, variants: sums.map((sum, i) => ({ key: `v${i}`, ...sum })) }), [], name)
  }
})

t.test('whatever the sums, the numbers are finite and agree with each other', async (t) => {
  const between = (min: number, max: number) => fc.double({ min, max, noNaN: true })
  const people = fc.integer({ min: 0, max: 9 }).chain((digits) => fc.integer({ min: 0, max: 10 ** digits }))
  const variant = fc.tuple(people, between(0, 1), between(1, 50))
  const kinds = fc.constantFrom<MetricKind>('funnel', 'count', 'sum', 'mean')
  fc.assert(fc.property(kinds, fc.array(variant, { minLength: 1, maxLength: 5 }), (kind, drawn) => {
    const variants = drawn.map(([exposed, share, unevenness], i) => {
      const sum = Math.floor(exposed * share)
      return { key: `v${i}`, exposed, sum, squaredDeviations: sum * (unevenness - 1) }
    })
    return findProblems({ kind, variants }).length === 0
  }), { seed: 7, numRuns: process.env.MILLRACE_TEST_LONG === '1' ? 400 : 100 })
  t.pass()
})

t.test('levels that cannot be are refused', async (t) => {
  const variants = [{ key: 'control', exposed: 10, sum: 1 }]
  t.throws(() => analyseMetric({ kind: 'funnel', variants, options: { confidenceLevel: 1 } }), /confidenceLevel/)
  t.throws(() => analyseMetric({ kind: 'funnel', variants, options: { sequentialTunedFor: 0 } }), /sequentialTunedFor/)
})

t.test('the same sums always give the same answer', async (t) => {
  const data: MetricData = {
    kind: 'count', variants: [{ key: 'control', exposed: 900, sum: 400 }, { key: 'test', exposed: 1000, sum: 480 }]
  }
  t.same(analyseMetric(data), analyseMetric(data))
})

/** Errors of an answer: numbers must be finite, probabilities add up to 1, intervals hold the estimates. */
function findProblems (data: MetricData): string[] {
  const analysis = analyseMetric(data)
  const problems: string[] = []
  const demand = (holds: boolean, what: string) => { if (!holds) problems.push(what) }
  JSON.stringify(analysis, (key, value) => {
    demand(typeof value !== 'number' || Number.isFinite(value), `${key} is ${value}`)
    return value
  })
  const total = analysis.variants.reduce((sum, variant) => sum + variant.probability, 0)
  demand(Math.abs(total - 1) < 1e-9, `probabilities add up to ${total}`)
  for (const { key, probability, expectedLoss, comparison } of analysis.variants) {
    demand(probability >= 0 && probability <= 1 + 1e-12, `probability of ${key}`)
    demand(expectedLoss === null || expectedLoss >= 0, `loss of ${key}`)
    if (comparison === null) continue
    const { bayesian, frequentist, sequential, absoluteLift } = comparison
    for (const interval of [frequentist.absoluteInterval, sequential.absoluteInterval]) {
      demand(interval === null || (interval[0] <= absoluteLift && absoluteLift <= interval[1]), `interval of ${key}`)
    }
    demand(bayesian.absoluteInterval[0] <= bayesian.absoluteInterval[1], `credible interval of ${key}`)
    const { pValue, adjustedPValue } = frequentist
    for (const p of [pValue, adjustedPValue, sequential.pValue, bayesian.chanceToBeatBaseline]) {
      demand(p === null || (p >= 0 && p <= 1), `a probability of ${key} is ${p}`)
    }
  }
  return problems
}

const clear: Evidence = {
  kind: 'funnel', smallestExposure: 100, variantCount: 2, baselineProbability: 0.1, leaderLoss: 0.0099, leaderPValue: 0.049
}

t.test('each check has its limit, and the first that fails names the verdict', async (t) => {
  const cases: [Partial<Evidence>, string][] = [
    [{}, 'significant'],
    [{ baselineProbability: 0.9 }, 'significant'],
    [{ kind: 'count' }, 'significant'],
    [{ smallestExposure: 99, baselineProbability: 0.5 }, 'not_enough_exposure'],
    [{ variantCount: 1 }, 'not_enough_exposure'],
    [{ baselineProbability: 0.11, leaderLoss: 0.5 }, 'low_win_probability'],
    [{ baselineProbability: 0.89 }, 'low_win_probability'],
    [{ leaderLoss: 0.01 }, 'high_loss'],
    [{ leaderLoss: null }, 'high_loss'],
    [{ leaderPValue: 0.9 }, 'significant'],
    [{ kind: 'count', leaderPValue: 0.05 }, 'high_p_value'],
    [{ kind: 'mean', leaderPValue: null }, 'high_p_value'],
    [{ kind: 'sum', leaderLoss: 5 }, 'significant']
  ]
  for (const [change, code] of cases) {
    t.equal(decideSignificance({ ...clear, ...change }, ANALYSIS_DEFAULTS), code, JSON.stringify(change))
  }
})

t.test('Holm\'s adjustment agrees with R\'s p.adjust', async (t) => {
  // R 4.2: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm"), p.adjust(c(0.04, 0.001, 0.03, 0.2), "holm")
  assertNear(t, adjustForComparisons([0.01, 0.02, 0.03, 0.04, 0.05]) as number[], [0.05, 0.08, 0.09, 0.09, 0.09])
  assertNear(t, adjustForComparisons([0.04, 0.001, 0.03, 0.2]) as number[], [0.09, 0.004, 0.09, 0.2])
})

t.test('what was not tested does not count as a comparison', async (t) => {
  t.same(adjustForComparisons([null, 0.01, null]), [null, 0.01, null])
  t.same(adjustForComparisons([0.9, 0.8]), [1, 1])
})
