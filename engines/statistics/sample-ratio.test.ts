import t from 'tap'
import { checkSampleRatio } from './sample-ratio.ts'
import { assertNear } from './testing/assert-near.ts'
import { createRandom } from './testing/simulate-people.ts'

t.test('600 against 400 is the mismatch of the encyclopedia', async (t) => {
  // Wikipedia, "Sample ratio mismatch": 1,000 users split in halves, p = 2.54e-10
  const check = split([600, 400], [50, 50])

  t.match(check, { mismatch: true, statistic: 40, degreesOfFreedom: 1, reliable: true })
  assertNear(t, check.pValue, 2.54e-10, 1e-3)
})

t.test('the chi-square test agrees with R for several variants', async (t) => {
  // R 4.2: chisq.test(c(89, 37, 30, 28, 2), p = c(40, 20, 20, 15, 5), rescale.p = TRUE), from example(chisq.test);
  // chisq.test(c(89, 37, 50, 24), p = c(.4, .2, .2, .2)); chisq.test(c(821588, 815482))
  assertNear(t, split([89, 37, 30, 28, 2], [40, 20, 20, 15, 5]).statistic, 9.99014336917513)
  assertNear(t, split([89, 37, 30, 28, 2], [40, 20, 20, 15, 5]).pValue, 0.0405940433447812)
  assertNear(t, split([89, 37, 50, 24], [40, 20, 20, 20]).pValue, 0.0174327778790977)
  assertNear(t, split([821_588, 815_482], [1, 1]).pValue, 1.82179287261919e-6)
})

t.test('a planned split raises no flag, whatever the unit of the weights', async (t) => {
  t.match(split([5012, 4988], [50, 50]), { mismatch: false, reliable: true })
  t.match(split([9012, 988], [0.9, 0.1]), { mismatch: false })
  t.same(split([10, 30], [1, 3]).variants.map((variant) => variant.expected), [10, 30])
})

t.test('a loss of one percent of a variant shows among many', async (t) => {
  t.match(split([500_000, 495_000], [50, 50]), { mismatch: true })
})

t.test('the sequential p-value is one over the average of Polya urns', async (t) => {
  // The Bayes factor as a product of predictions: after n people, n1 of them here, the next comes here with
  // probability (strength * share + n1) / (strength + n).
  const urn = (strength: number) => {
    let factor = 1
    for (let i = 0; i < 30; i++) factor *= (strength / 2 + i) / (strength + i) / 0.5
    for (let i = 0; i < 10; i++) factor *= (strength / 2 + i) / (strength + 30 + i) / 0.5
    return factor
  }
  const average = (urn(10) + urn(1_000) + urn(100_000)) / 3

  assertNear(t, split([30, 10], [50, 50]).sequentialPValue, 1 / average)
})

t.test('few people are judged by the exact test alone', async (t) => {
  t.match(split([4, 1], [50, 50]), { reliable: false, mismatch: false })
  t.match(split([0, 40], [50, 50]), { mismatch: true })
  t.match(split([150, 150], [99, 1]), { reliable: false, mismatch: true })
})

t.test('people in a variant that nobody should see are a mismatch', async (t) => {
  t.match(split([500, 500, 1], [50, 50, 0]), { mismatch: true, pValue: 0, statistic: null })
  t.match(split([500, 500, 0], [50, 50, 0]), { mismatch: false, degreesOfFreedom: 1 })
})

t.test('nothing to compare gives no p-value', async (t) => {
  t.match(split([0, 0], [50, 50]), { mismatch: false, pValue: null, sequentialPValue: null })
  t.match(split([10], [100]), { mismatch: false, pValue: null })
})

t.test('a billion people give finite numbers', async (t) => {
  const check = split([1e9, 1e9 + 40_000], [50, 50])
  t.match(check, { mismatch: false })
  t.ok((check.sequentialPValue as number) > 0.001)
})

t.test('counts and weights that cannot be are refused', async (t) => {
  t.throws(() => split([-1, 1], [50, 50]), /exposed/)
  t.throws(() => split([1, 1], [NaN, 50]), /weight/)
  t.throws(() => split([1, 1], [0, 0]), /weight/)
})

t.test('looked at daily, 2,000 correct splits raise hardly a flag by the sequential p-value', async (t) => {
  const random = createRandom(11)
  let alarms = 0
  for (let experiment = 0; experiment < 2_000; experiment++) {
    const exposed: [number, number] = [0, 0]
    let smallest = 1
    for (let day = 0; day < 20; day++) {
      for (let person = 0; person < 100; person++) exposed[random() < 0.5 ? 0 : 1]++
      smallest = Math.min(smallest, split(exposed, [50, 50]).sequentialPValue as number)
    }
    if (smallest < 0.05) alarms++
  }

  t.ok(alarms <= 100, `${alarms} of 2,000 ever below 0.05`)
})

function split (exposed: readonly number[], weights: readonly number[]) {
  return checkSampleRatio(exposed.map((people, i) => ({ key: `v${i}`, exposed: people, weight: weights[i] as number })))
}
