import t from 'tap'
import { testConditionalCounts, testTwoProportions, testWelch } from './frequentist.ts'
import { ratioInterval } from './ratio-interval.ts'
import { assertNear } from './testing/assert-near.ts'
import { buildSamples, type Sample } from './variant-statistics.ts'

t.test('two proportions agree with the smokers of R\'s prop.test (Fleiss 1981)', async (t) => {
  // R 4.2: prop.test(c(83, 90), c(86, 93), correct = FALSE), the first two hospitals of example(prop.test)
  const outcome = testTwoProportions(proportion(83, 86), proportion(90, 93), 0.95)

  assertNear(t, (outcome.statistic as number) ** 2, 0.00950851874818416)
  assertNear(t, outcome.pValue, 0.92232009573426854)
  assertNear(t, outcome.absoluteInterval, [-0.05547737855853381, 0.0502260657303268])
})

t.test('two proportions agree with R', async (t) => {
  // R 4.2: prop.test(c(15, 25), c(50, 50), correct = FALSE); prop.test(c(500, 400), c(10000, 10000), correct = FALSE)
  const small = testTwoProportions(proportion(15, 50), proportion(25, 50), 0.95)
  assertNear(t, small.pValue, 0.0412268333371636)
  assertNear(t, small.absoluteInterval, [-0.3879931412322959, -0.0120068587677042])

  const large = testTwoProportions(proportion(500, 10_000), proportion(400, 10_000), 0.95)
  assertNear(t, large.statistic, Math.sqrt(11.6346713205352))
  assertNear(t, large.pValue, 6.47337801014458e-4)
  assertNear(t, large.absoluteInterval, [0.00425560000785439, 0.0157443999921456])
})

t.test('nothing is claimed when nobody or everybody converted', async (t) => {
  for (const sum of [0, 50]) {
    t.match(testTwoProportions(proportion(sum, 50), proportion(sum, 50), 0.95),
      { statistic: null, pValue: null, absoluteInterval: null, relativeInterval: null })
  }
})

t.test('all against none is significant, without an interval', async (t) => {
  const outcome = testTwoProportions(proportion(50, 50), proportion(0, 50), 0.95)

  // z is exactly 10: the pooled rate is 1/2, its error 1/10. R: 2 * pnorm(-10)
  assertNear(t, outcome.statistic, 10)
  assertNear(t, outcome.pValue, 1.52397060483211e-23)
  t.equal(outcome.absoluteInterval, null)
})

function proportion (sum: number, exposed: number): Sample {
  return buildSamples('funnel', [{ key: 'a', exposed, sum }]).samples[0] as Sample
}

t.test('event rates agree with the four Danish cities of R\'s poisson.test', async (t) => {
  // R 4.2: poisson.test(c(11, 6 + 8 + 7), c(800, 1083 + 1050 + 878)), from example(poisson.test), has this interval.
  // Its p-value adds up less likely outcomes; ours is twice the smaller tail:
  // 2 * min(pbinom(11, 32, 800 / 3811), pbinom(10, 32, 800 / 3811, lower = FALSE))
  const outcome = testConditionalCounts(rate(11, 800), rate(21, 3011), 0.95)

  assertNear(t, outcome.relativeInterval, [0.858426403391639 - 1, 4.277265943654071 - 1])
  assertNear(t, outcome.pValue, 0.112017319575399)
})

t.test('event rates of equally many people agree with R', async (t) => {
  // R 4.2: poisson.test(c(40, 60), c(1000, 1000)), where both p-values are the same by symmetry
  const outcome = testConditionalCounts(rate(40, 1000), rate(60, 1000), 0.95)

  assertNear(t, outcome.pValue, 0.0568879336409809)
  assertNear(t, outcome.relativeInterval, [0.4353272446917109 - 1, 1.0112260587935464 - 1])
})

t.test('no event on one side bounds the ratio from above', async (t) => {
  // R 4.2: poisson.test(c(0, 12), c(1000, 900))$conf.int; 2 * (900 / 1900)^12 is the p-value twice the tail
  const outcome = testConditionalCounts(rate(0, 1000), rate(12, 900), 0.95)

  assertNear(t, outcome.relativeInterval, [-1, 0.323904435558933501 - 1])
  assertNear(t, outcome.pValue, 2 * (900 / 1900) ** 12)
})

t.test('without events there is no difference, and no interval', async (t) => {
  t.match(testConditionalCounts(rate(0, 10), rate(0, 20), 0.95),
    { pValue: 1, absoluteInterval: null, relativeInterval: null })
  t.equal(testConditionalCounts(rate(3, 10), rate(0, 20), 0.95).relativeInterval, null)
})

t.test('counts twice as uneven as Poisson are worth half as many', async (t) => {
  const uneven = testConditionalCounts(rate(80, 1000), rate(120, 1000), 0.95, 2)

  assertNear(t, uneven.pValue, 0.0568879336409809)
})

function rate (sum: number, exposed: number): Sample {
  return buildSamples('count', [{ key: 'a', exposed, sum }]).samples[0] as Sample
}

t.test('Welch\'s test agrees with the sleep data of R (Student 1908)', async (t) => {
  // R 4.2: t.test(extra ~ group, data = sleep), from example(t.test)
  const outcome = testWelch(mean(10, 7.5, 34.43), mean(10, 23.3, 90.37), 0.95)

  assertNear(t, outcome.statistic, -1.86081346748685)
  assertNear(t, outcome.degreesOfFreedom, 17.7764735161785)
  assertNear(t, outcome.pValue, 0.0793941401873582)
  assertNear(t, outcome.absoluteInterval, [-3.3654832307117104, 0.2054832307117102])
})

t.test('Welch\'s test agrees with R for groups of unequal size and variance', async (t) => {
  // R 4.2: t.test(mpg ~ am, data = mtcars)
  const outcome = testWelch(mean(19, 325.8, 5851.2), mean(13, 317.1, 8191.11), 0.95)

  assertNear(t, outcome.statistic, -3.76712314514493)
  assertNear(t, outcome.degreesOfFreedom, 18.3322516384008)
  assertNear(t, outcome.pValue, 0.00137363833307103)
  assertNear(t, outcome.absoluteInterval, [-11.28019435504016, -3.20968418746996])
})

t.test('nothing is claimed when no value varies', async (t) => {
  t.same(testWelch(mean(100, 300, 900), mean(100, 400, 1600), 0.95), {
    test: 'welch-t', statistic: null, degreesOfFreedom: null, pValue: null, absoluteInterval: null, relativeInterval: null
  })
})

t.test('one side may be constant', async (t) => {
  const { degreesOfFreedom, pValue } = testWelch(mean(100, 50, 80), mean(200, 0, 0), 0.95)

  assertNear(t, degreesOfFreedom, 99)
  t.ok((pValue as number) < 1e-6)
})

function mean (exposed: number, sum: number, sumOfSquares: number): Sample {
  const squaredDeviations = sumOfSquares - sum * sum / exposed
  return buildSamples('mean', [{ key: 'a', exposed, sum, squaredDeviations }]).samples[0] as Sample
}

t.test('at the ends of the interval the scaled baseline is just the width away', async (t) => {
  const variant = { mean: 12, squaredError: 0.25 }
  const baseline = { mean: 10, squaredError: 0.16 }

  const distances = ratioInterval(variant, baseline, 1.96)?.map((lift) =>
    (12 - (1 + lift) * 10) / Math.sqrt(0.25 + (1 + lift) ** 2 * 0.16)) ?? null

  assertNear(t, distances, [1.96, -1.96])
})

t.test('the interval holds zero exactly when that of the difference does', async (t) => {
  const baseline = { mean: 10, squaredError: 0.16 }
  const edge = 10 + 1.96 * Math.sqrt(0.25 + 0.16)

  assertNear(t, ratioInterval({ mean: edge, squaredError: 0.25 }, baseline, 1.96)?.[0] ?? null, 0, 1e-12)
})

t.test('far from zero it is the delta method', async (t) => {
  // Var(v / b) = Var(v) / b^2 + v^2 Var(b) / b^4
  const [low, high] = ratioInterval({ mean: 1020, squaredError: 0.3 }, { mean: 1000, squaredError: 0.2 }, 1.96) ?? []
  const half = 1.96 * Math.sqrt(0.3 / 1e6 + 1020 ** 2 * 0.2 / 1e12)

  assertNear(t, [low ?? 0, high ?? 0], [0.02 - half, 0.02 + half], 1e-4)
})

t.test('there is no ratio to what may be zero, and no interval without variance', async (t) => {
  t.equal(ratioInterval({ mean: 1, squaredError: 0.1 }, { mean: 2, squaredError: 0.5 }, 1.96), null)
  t.equal(ratioInterval({ mean: 1, squaredError: 0.1 }, { mean: -2, squaredError: 0.01 }, 1.96), null)
  t.equal(ratioInterval({ mean: 1, squaredError: 0 }, { mean: 2, squaredError: 0 }, 1.96), null)
})

t.test('tiny and huge quantities neither underflow nor overflow', async (t) => {
  for (const unit of [1e-120, 1e120]) {
    const scaled = (mean: number, error: number) => ({ mean: mean * unit, squaredError: error * unit * unit })
    assertNear(t, ratioInterval(scaled(12, 0.25), scaled(10, 0.16), 1.96),
      ratioInterval(scaled(12, 0.25), scaled(10, 0.16), 1.96))
    t.ok(ratioInterval(scaled(12, 0.25), scaled(10, 0.16), 1.96)?.every(Number.isFinite))
  }
})
