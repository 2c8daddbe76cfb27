import t from 'tap'
import { buildSamples, type Sample } from './variant-statistics.ts'
import { normalDensity } from './distributions.ts'
import { assertNear } from './testing/assert-near.ts'
import { compareSequentially } from './sequential.ts'

const tuning = { level: 0.95, tunedFor: 5_000 }
// rho^2 of tuning, for alpha = 0.05 and 5,000 people.
const rhoSquared = (-2 * Math.log(0.05) + Math.log(-2 * Math.log(0.05) + 1)) / 5_000

t.test('the p-value is one over the average likelihood ratio of normally distributed differences', async (t) => {
  for (const [size, shift] of [[500, 0.1], [4_000, 0.05], [100_000, 0.003]] as const) {
    const { pValue } = compareSequentially(mean(size, 5 + shift, 1.5), mean(size, 5, 0.5), tuning)

    assertNear(t, pValue, Math.min(1, 1 / averageLikelihoodRatio(shift, 2 / size, 2 * size)), 1e-6)
  }
})

t.test('at the end of the interval the p-value is the error level', async (t) => {
  const [low] = compareSequentially(mean(3_000, 5, 1), mean(3_000, 5, 1), tuning).absoluteInterval as [number, number]

  assertNear(t, compareSequentially(mean(3_000, 5 - low, 1), mean(3_000, 5, 1), tuning).pValue, 0.05, 1e-9)
})

t.test('the interval is narrowest, in standard errors, about where it is tuned', async (t) => {
  const width = (people: number) => {
    const half = mean(people / 2, 5, 1)
    const [low, high] = compareSequentially(half, half, tuning).absoluteInterval ?? [0, 0]
    return (high - low) * Math.sqrt(people)
  }

  t.ok(width(5_000) < width(1_000))
  t.ok(width(5_000) < width(25_000))
  t.ok(width(5_000) < 1.001 * Math.min(width(4_000), width(6_000)))
})

t.test('the price of looking at any time is a wider interval', async (t) => {
  const [low, high] = compareSequentially(mean(2_500, 5, 1), mean(2_500, 5, 1), tuning).absoluteInterval ?? [0, 0]
  const standardError = Math.sqrt(2 / 2_500)

  // 3.035 standard errors instead of 1.96, by minimising the bound over rho numerically.
  assertNear(t, (high - low) / 2 / standardError, 3.035, 1e-3)
})

t.test('one conversion against none on the first day is no discovery', async (t) => {
  const [none, one] = buildSamples('funnel', [
    { key: 'control', exposed: 40, sum: 0 }, { key: 'test', exposed: 40, sum: 1 }
  ]).samples as [Sample, Sample]

  t.ok((compareSequentially(one, none, tuning).pValue as number) > 0.5)
})

/** Midpoint rule over 100,000 differences; the mixture has the variance rho^2 times that of one person. */
function averageLikelihoodRatio (difference: number, squaredError: number, people: number): number {
  const mixture = Math.sqrt(rhoSquared * squaredError * people)
  const error = Math.sqrt(squaredError)
  const steps = 100_000
  let sum = 0
  for (let i = 0; i < steps; i++) {
    const z = (i + 0.5) / steps * 20 - 10
    sum += normalDensity(z) * normalDensity((difference - z * mixture) / error) * 20 / steps
  }
  return sum / normalDensity(difference / error)
}

/** A sample of `size` people with exactly this mean and (unbiased) variance. */
function mean (size: number, value: number, variance: number): Sample {
  const squaredDeviations = (size - 1) * variance
  return buildSamples('mean', [{ key: 'a', exposed: size, sum: size * value, squaredDeviations }]).samples[0] as Sample
}
