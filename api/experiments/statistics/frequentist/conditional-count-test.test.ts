import t from 'tap'
import { buildSamples, type Sample } from '../build-samples.ts'
import { assertNear } from '../testing/assert-near.ts'
import { testConditionalCounts } from './conditional-count-test.ts'

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
  return buildSamples('count', [{ key: 'a', exposed, sum }], 'poisson').samples[0] as Sample
}
