import t from 'tap'
import { betaCumulative, logGamma, normalCumulative, normalDensity } from './distributions.ts'
import { assertNear } from './testing/assert-near.ts'
import { buildBetaPosterior, buildGammaPosterior, buildNormalPosterior, credibleInterval, INNER_LEVEL } from './posterior.ts'
import { buildIntegrationNodes, comparePosteriors, rankPosteriors } from './bayesian.ts'

/** Shape `events` + 1, which has closed forms. */
const buildFlatGamma = (events: number, size: number) => buildGammaPosterior(events + 1 / 2, size)

t.test('the chance of one conversion rate to beat another is Evan Miller\'s closed form', async (t) => {
  const cases = [[100, 1000, 130, 1000], [1, 20, 5, 21], [0, 50, 0, 60], [500, 1000, 480, 990], [3, 100_000, 9, 90_000]]
  for (const [a, sizeA, b, sizeB] of cases as [number, number, number, number][]) {
    const [, second] = rankPosteriors([buildBetaPosterior(a, sizeA), buildBetaPosterior(b, sizeB)])

    assertNear(t, second?.probability ?? null, closedFormForRates(a, sizeA, b, sizeB), 1e-8, `${b}/${sizeB}`)
  }
})

t.test('the chance of one event rate to beat another is Evan Miller\'s closed form for counts', async (t) => {
  for (const [a, sizeA, b, sizeB] of [[400, 900, 480, 1000], [0, 10, 3, 10], [20, 3, 22, 4]] as const) {
    const [, second] = rankPosteriors([buildFlatGamma(a, sizeA), buildFlatGamma(b, sizeB)])

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

t.test('where less is better, variants stand as their opposites do', async (t) => {
  const normals = (sign: number) =>
    [[10, 0.09], [10.4, 0.16], [9.9, 0.5]].map(([mean = 0, error = 0]) => buildNormalPosterior(sign * mean, error))
  const [less, more] = [rankPosteriors(normals(1), false), rankPosteriors(normals(-1))]
  for (const name of ['probability', 'expectedLoss'] as const) assertNear(t, less.map((each) => each[name]), more.map((each) => each[name]))
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

t.test('the difference and the ratio of two conversion rates agree with R', async (t) => {
  // R 4.2, uniroot over q of integrate(function (y) dbeta(y, 101, 901) * pbeta(y + q, 131, 871), 0, 1) - p,
  // and of the same with pbeta(y * q, 131, 871), for p = 0.025 and 0.975.
  const comparison = comparePosteriors(buildBetaPosterior(130, 1000), buildBetaPosterior(100, 1000), 0.95)

  assertNear(t, comparison.chanceToBeatBaseline, 0.982165066116351)
  assertNear(t, comparison.absoluteInterval, [0.00200852166171086, 0.0579792898878403], 1e-8)
  assertNear(t, comparison.relativeInterval, [0.0175669714651261, 0.661048584430758], 1e-8)
})

t.test('the inner intervals of two conversion rates agree with numerical integration', async (t) => {
  // mpmath 1.3: findroot over q of quad(pdf(y, 101, 901) * cdf(y + q, 131, 871), [0, 1]) - p for p = 0.25 and 0.75,
  // and of the same with cdf(y * q, 131, 871), by its regularised incomplete beta function; at 0.025 and 0.975 these
  // give R's numbers above.
  const comparison = comparePosteriors(buildBetaPosterior(130, 1000), buildBetaPosterior(100, 1000), 0.95)

  assertNear(t, comparison.innerAbsoluteInterval, [0.02031834765454602, 0.0395413735477442], 1e-8)
  assertNear(t, comparison.innerRelativeInterval, [0.1933851810745731, 0.4122247976860928], 1e-8)
})

t.test('the difference of two hardly known rates agrees with R', async (t) => {
  // The same with dbeta(y, 1, 1001) and pbeta(y + q, 4, 998).
  const comparison = comparePosteriors(buildBetaPosterior(3, 1000), buildBetaPosterior(0, 1000), 0.95)

  assertNear(t, comparison.absoluteInterval, [-0.000910138331778373, 0.00796973733084516], 1e-7)
})

t.test('the ratio of two event rates is the F distribution', async (t) => {
  // R 4.2: qf(c(0.025, 0.975), 962, 802) * (481 / 1000) / (401 / 900) - 1
  // and 1 - pf((401 / 900) / (481 / 1000), 962, 802)
  const comparison = comparePosteriors(buildFlatGamma(480, 1000), buildFlatGamma(400, 900), 0.95)

  assertNear(t, comparison.relativeInterval, [-0.0541530512101668, 0.2331522291977843], 1e-8)
  assertNear(t, comparison.chanceToBeatBaseline, 0.871781138147276)
  // scipy 1.17: stats.f.ppf([0.25, 0.75], 962, 802) * (481 / 1000) / (401 / 900) - 1
  assertNear(t, comparison.innerRelativeInterval, [0.031577791110398, 0.130139174653323], 1e-8)
})

t.test('the interval of a ratio of means ends where the chance to be below it is 2.5 %', async (t) => {
  const { relativeInterval } = comparePosteriors(buildNormalPosterior(12, 0.25), buildNormalPosterior(10, 0.16), 0.95)

  // Probability that variant - r * baseline is below zero, a normal variable.
  const below = relativeInterval?.map((lift) =>
    normalCumulative(((1 + lift) * 10 - 12) / Math.hypot(0.5, (1 + lift) * 0.4))) ?? null
  assertNear(t, below, [0.025, 0.975])
})

t.test('the inner intervals of normals are the quartiles', async (t) => {
  const { innerAbsoluteInterval, innerRelativeInterval } =
    comparePosteriors(buildNormalPosterior(12, 0.25), buildNormalPosterior(10, 0.16), 0.95)

  // Half of a normal distribution lies within 0.674489750196082 standard deviations (R: qnorm(0.75)).
  const half = 0.674489750196082 * Math.sqrt(0.41)
  assertNear(t, innerAbsoluteInterval, [2 - half, 2 + half])
  const below = innerRelativeInterval?.map((lift) =>
    normalCumulative(((1 + lift) * 10 - 12) / Math.hypot(0.5, (1 + lift) * 0.4))) ?? null
  assertNear(t, below, [0.25, 0.75])
})

t.test('there is no ratio to a mean that may be zero', async (t) => {
  for (const baseline of [0, -5, 0.5]) {
    const comparison = comparePosteriors(buildNormalPosterior(3, 0.1), buildNormalPosterior(baseline, 0.1), 0.95)
    t.equal(comparison.relativeInterval, null)
    t.equal(comparison.absoluteInterval.every(Number.isFinite), true)
  }
})

t.test('the inner interval of one variant has a quarter of its posterior on each side', async (t) => {
  // scipy 1.17: stats.beta.ppf([0.25, 0.75], 131, 871) and stats.gamma.ppf([0.25, 0.75], 481) / 1000
  assertNear(t, credibleInterval(buildBetaPosterior(130, 1000), INNER_LEVEL), [0.123426772815855, 0.13778261783478])
  assertNear(t, credibleInterval(buildFlatGamma(480, 1000), INNER_LEVEL), [0.466031220213841, 0.495605466709428])
})

t.test('swapping the two mirrors the difference', async (t) => {
  const [one, other] = [buildBetaPosterior(7, 300), buildBetaPosterior(90, 1200)]
  const there = comparePosteriors(one, other, 0.9)
  const back = comparePosteriors(other, one, 0.9)

  assertNear(t, there.absoluteInterval, [-back.absoluteInterval[1], -back.absoluteInterval[0]], 1e-8)
  assertNear(t, there.chanceToBeatBaseline, 1 - back.chanceToBeatBaseline)
})

t.test('counts that vary twice as much carry half the information', async (t) => {
  const [low, high] = credibleInterval(buildGammaPosterior(2000, 1000, 2), 0.95)
  const [lowHalf, highHalf] = credibleInterval(buildGammaPosterior(1000, 500), 0.95)

  assertNear(t, [low, high], [lowHalf, highHalf], 1e-12)
})

t.test('eight points integrate a polynomial of degree 15 exactly', async (t) => {
  const { points, widths } = buildIntegrationNodes([1, 3])

  const integral = points.reduce((sum, x, i) => sum + x ** 15 * (widths[i] as number), 0)

  assertNear(t, integral, (3 ** 16 - 1) / 16, 1e-13)
})

t.test('breakpoints may come in any order and repeat', async (t) => {
  const { points, widths } = buildIntegrationNodes([4, 1, 2, 4, 1])

  t.equal(points.length, 16)
  assertNear(t, widths.reduce((sum, width) => sum + width, 0), 3, 1e-14)
  assertNear(t, points.reduce((sum, x, i) => sum + Math.exp(x) * (widths[i] as number), 0), Math.exp(4) - Math.E, 1e-12)
})

t.test('a density with a pole at zero is integrated as one without', async (t) => {
  const { points, widths } = buildIntegrationNodes([0, 2])
  const integrate = (f: (x: number) => number): number =>
    points.reduce((sum, x, i) => sum + f(x) * (widths[i] as number), 0)

  assertNear(t, integrate((x) => 1 / Math.sqrt(x)), 2 * Math.SQRT2, 1e-5)
  assertNear(t, integrate((x) => x ** 15), 2 ** 16 / 16, 1e-8)
})

t.test('the chance of a rate without any event to be best is that of the F distribution', async (t) => {
  // Gamma variables of shapes 1/2 (no event among 40 people) and 5 + 1/2 (of 60), by the incomplete beta function.
  const [none, some] = [buildGammaPosterior(0, 40), buildGammaPosterior(5, 60)]
  const expected = betaCumulative(60 / 100, 5 + 1 / 2, 1 / 2)

  assertNear(t, rankPosteriors([none, some])[0]?.probability ?? null, expected, 1e-5)
  assertNear(t, comparePosteriors(none, some, 0.95).chanceToBeatBaseline, expected, 1e-5)
})
