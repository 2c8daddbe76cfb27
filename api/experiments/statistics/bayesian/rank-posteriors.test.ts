import t from 'tap'
import { logGamma } from '../distributions/gamma.ts'
import { normalCumulative, normalDensity } from '../distributions/normal.ts'
import { assertNear } from '../testing/assert-near.ts'
import { buildBetaPosterior, buildGammaPosterior, buildNormalPosterior } from './posterior.ts'
import { rankPosteriors } from './rank-posteriors.ts'

t.test('the chance of one conversion rate to beat another is Evan Miller\'s closed form', async (t) => {
  const cases = [[100, 1000, 130, 1000], [1, 20, 5, 21], [0, 50, 0, 60], [500, 1000, 480, 990], [3, 100_000, 9, 90_000]]
  for (const [a, sizeA, b, sizeB] of cases as [number, number, number, number][]) {
    const [, second] = rankPosteriors([buildBetaPosterior(a, sizeA), buildBetaPosterior(b, sizeB)])

    assertNear(t, second?.probability ?? null, closedFormForRates(a, sizeA, b, sizeB), 1e-8, `${b}/${sizeB}`)
  }
})

t.test('the chance of one event rate to beat another is Evan Miller\'s closed form for counts', async (t) => {
  for (const [a, sizeA, b, sizeB] of [[400, 900, 480, 1000], [0, 10, 3, 10], [20, 3, 22, 4]] as const) {
    const [, second] = rankPosteriors([buildGammaPosterior(a, sizeA), buildGammaPosterior(b, sizeB)])

    assertNear(t, second?.probability ?? null, closedFormForCounts(a, sizeA, b, sizeB), 1e-8)
  }
})

t.test('three conversion rates agree with integrals computed by R', async (t) => {
  // R 4.2, a = c(101, 116, 96), b = c(901, 886, 906), for each i with the other two j and k:
  // integrate(function (x) dbeta(x, a[i], b[i]) * pbeta(x, a[j], b[j]) * pbeta(x, a[k], b[k]), 0, 1)
  // integrate(function (x) pbeta(x, a[i], b[i]) - prod over all of pbeta(x, a, b), 0, 1)
  const standings = rankPosteriors([100, 115, 95].map((conversions) => buildBetaPosterior(conversions, 1000)))

  assertNear(t, standings.map((one) => one.probability), [0.1269054869101476, 0.8187332391082206, 0.0543612739816314])
  assertNear(t, standings.map((one) => one.expectedLoss),
    [0.01625827317259723, 0.00128821329235771, 0.02124829313267707])
})

t.test('the expected loss between two normals is its closed form', async (t) => {
  // E[max(d, 0)] = s density(m / s) + m cumulative(m / s) for a normal d of mean m and deviation s.
  const [first, second] = rankPosteriors([buildNormalPosterior(10, 0.09), buildNormalPosterior(10.4, 0.16)])
  const z = 0.4 / 0.5

  assertNear(t, first?.expectedLoss ?? null, 0.5 * normalDensity(z) + 0.4 * normalCumulative(z))
  assertNear(t, second?.expectedLoss ?? null, 0.5 * normalDensity(z) - 0.4 * normalCumulative(-z))
  assertNear(t, second?.probability ?? null, normalCumulative(z))
})

t.test('equal variants share the chance, however many they are', async (t) => {
  for (const size of [2, 11, 21]) {
    const beta = rankPosteriors(Array.from({ length: size }, () => buildBetaPosterior(50, 400)))
    const normal = rankPosteriors(Array.from({ length: size }, () => buildNormalPosterior(-3, 2)))

    for (const { probability } of [...beta, ...normal]) assertNear(t, probability, 1 / size)
  }
})

t.test('a variant known very well is compared with one hardly known', async (t) => {
  // A point at 0.1 against the uniform distribution: the uniform is above it nine times in ten.
  const [point, uniform] = rankPosteriors([buildBetaPosterior(1e8, 1e9), buildBetaPosterior(0, 0)])

  assertNear(t, point?.probability ?? null, 0.1, 1e-6)
  assertNear(t, uniform?.expectedLoss ?? null, 0.1 ** 2 / 2, 1e-6)
})

/** Sum over i below the shape of B (https://www.evanmiller.org/bayesian-ab-testing.html, equation 6). */
function closedFormForRates (a: number, sizeA: number, b: number, sizeB: number): number {
  const [alphaA, betaA, alphaB, betaB] = [a + 1, sizeA - a + 1, b + 1, sizeB - b + 1]
  const logBeta = (x: number, y: number) => logGamma(x) + logGamma(y) - logGamma(x + y)
  let sum = 0
  for (let i = 0; i < alphaB; i++) {
    sum += Math.exp(logBeta(alphaA + i, betaB + betaA) - Math.log(betaB + i) - logBeta(1 + i, betaB) -
      logBeta(alphaA, betaA))
  }
  return sum
}

/** The same page, count data: shapes are events + 1, rates the numbers of people. */
function closedFormForCounts (a: number, sizeA: number, b: number, sizeB: number): number {
  const [alphaA, alphaB] = [a + 1, b + 1]
  const logBeta = (x: number, y: number) => logGamma(x) + logGamma(y) - logGamma(x + y)
  let sum = 0
  for (let k = 0; k < alphaB; k++) {
    sum += Math.exp(k * Math.log(sizeB) + alphaA * Math.log(sizeA) - (k + alphaA) * Math.log(sizeA + sizeB) -
      Math.log(k + alphaA) - logBeta(k + 1, alphaA))
  }
  return sum
}
