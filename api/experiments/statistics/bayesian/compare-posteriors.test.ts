import t from 'tap'
import { normalCumulative } from '../distributions/normal.ts'
import { assertNear } from '../testing/assert-near.ts'
import { comparePosteriors } from './compare-posteriors.ts'
import { buildBetaPosterior, buildGammaPosterior, buildNormalPosterior, credibleInterval } from './posterior.ts'

t.test('the difference and the ratio of two conversion rates agree with R', async (t) => {
  // R 4.2, uniroot over q of integrate(function (y) dbeta(y, 101, 901) * pbeta(y + q, 131, 871), 0, 1) - p,
  // and of the same with pbeta(y * q, 131, 871), for p = 0.025 and 0.975.
  const comparison = comparePosteriors(buildBetaPosterior(130, 1000), buildBetaPosterior(100, 1000), 0.95)

  assertNear(t, comparison.chanceToBeatBaseline, 0.982165066116351)
  assertNear(t, comparison.absoluteInterval, [0.00200852166171086, 0.0579792898878403], 1e-8)
  assertNear(t, comparison.relativeInterval, [0.0175669714651261, 0.661048584430758], 1e-8)
})

t.test('the difference of two hardly known rates agrees with R', async (t) => {
  // The same with dbeta(y, 1, 1001) and pbeta(y + q, 4, 998).
  const comparison = comparePosteriors(buildBetaPosterior(3, 1000), buildBetaPosterior(0, 1000), 0.95)

  assertNear(t, comparison.absoluteInterval, [-0.000910138331778373, 0.00796973733084516], 1e-7)
})

t.test('the ratio of two event rates is the F distribution', async (t) => {
  // R 4.2: qf(c(0.025, 0.975), 962, 802) * (481 / 1000) / (401 / 900) - 1
  // and 1 - pf((401 / 900) / (481 / 1000), 962, 802)
  const comparison = comparePosteriors(buildGammaPosterior(480, 1000), buildGammaPosterior(400, 900), 0.95)

  assertNear(t, comparison.relativeInterval, [-0.0541530512101668, 0.2331522291977843], 1e-8)
  assertNear(t, comparison.chanceToBeatBaseline, 0.871781138147276)
})

t.test('the interval of a ratio of means ends where the chance to be below it is 2.5 %', async (t) => {
  const { relativeInterval } = comparePosteriors(buildNormalPosterior(12, 0.25), buildNormalPosterior(10, 0.16), 0.95)

  // Probability that variant - r * baseline is below zero, a normal variable.
  const below = relativeInterval?.map((lift) =>
    normalCumulative(((1 + lift) * 10 - 12) / Math.hypot(0.5, (1 + lift) * 0.4))) ?? null
  assertNear(t, below, [0.025, 0.975])
})

t.test('there is no ratio to a mean that may be zero', async (t) => {
  for (const baseline of [0, -5, 0.5]) {
    const comparison = comparePosteriors(buildNormalPosterior(3, 0.1), buildNormalPosterior(baseline, 0.1), 0.95)
    t.equal(comparison.relativeInterval, null)
    t.equal(comparison.absoluteInterval.every(Number.isFinite), true)
  }
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
