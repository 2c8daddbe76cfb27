import t from 'tap'
import { buildSamples, type Sample } from '../build-samples.ts'
import { assertNear } from '../testing/assert-near.ts'
import { testWelch } from './welch-test.ts'

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
  return buildSamples('mean', [{ key: 'a', exposed, sum, sumOfSquares }], 'estimated').samples[0] as Sample
}
