import t from 'tap'
import { buildSamples, type Sample } from '../build-samples.ts'
import { assertNear } from '../testing/assert-near.ts'
import { testTwoProportions } from './two-proportion-test.ts'

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
  return buildSamples('funnel', [{ key: 'a', exposed, sum }], 'estimated').samples[0] as Sample
}
