import t from 'tap'
import { estimateSampleSize, type MetricExpectation, type SampleSizeGoal } from './sample-size.ts'

t.test('two proportions agree with R\'s power.prop.test', async (t) => {
  // R 4.2: power.prop.test(p1 = .50, p2 = .75, power = .90) gives n = 76.7, from example(power.prop.test);
  // power.prop.test(p1 = .10, p2 = .12, power = .80) gives n = 3840.85
  t.same(sizes({ kind: 'funnel', baseline: 0.5 }, { minimumDetectableEffect: 0.5, power: 0.9 }), [77, 77])
  t.same(sizes({ kind: 'funnel', baseline: 0.1 }, { minimumDetectableEffect: 0.2 }), [3841, 3841])
})

t.test('two means agree with R\'s power.t.test within one person', async (t) => {
  // R 4.2: power.t.test(power = .90, delta = 1) gives n = 22.02, from example(power.t.test);
  // power.t.test(power = .80, delta = .05, sd = 1) gives n = 6280.06
  t.same(sizes({ kind: 'mean', baseline: 1, standardDeviation: 1 }, { minimumDetectableEffect: 1, power: 0.9 }), [22, 22])
  t.same(sizes({ kind: 'sum', baseline: 1, standardDeviation: 1 }, { minimumDetectableEffect: 0.05 }), [6281, 6281])
})

t.test('two event rates need what their variances say', async (t) => {
  // (1.959964 + 0.841621)^2 * (0.5 + 0.55) / 0.05^2 = 3296.53; with twice the variance twice as many
  t.same(sizes({ kind: 'count', baseline: 0.5 }, { minimumDetectableEffect: 0.1 }), [3297, 3297])
  t.same(sizes({ kind: 'count', baseline: 0.5, dispersion: 2 }, { minimumDetectableEffect: 0.1 }), [6594, 6594])
})

t.test('a decrease needs about as many people as an increase', async (t) => {
  t.same(sizes({ kind: 'mean', baseline: 1, standardDeviation: 1 }, { minimumDetectableEffect: -0.05 }), [6281, 6281])
})

t.test('an unequal split needs more people in all', async (t) => {
  const goal = { minimumDetectableEffect: 0.05 }
  const metric: MetricExpectation = { kind: 'mean', baseline: 1, standardDeviation: 1 }
  const equal = estimateSampleSize(metric, goal)
  const unequal = estimateSampleSize(metric, { ...goal, weights: [90, 10] })

  // 1 / 0.9 + 1 / 0.1 instead of 1 / 0.5 + 1 / 0.5
  t.ok(Math.abs((unequal.total as number) / (equal.total as number) - (1 / 0.9 + 1 / 0.1) / 4) < 0.001)
  t.same(estimateSampleSize(metric, { ...goal, weights: [50, 50, 0] }).perVariant, [6281, 6281, 0])
})

t.test('more variants need a stricter level by default', async (t) => {
  const metric: MetricExpectation = { kind: 'mean', baseline: 1, standardDeviation: 1 }
  const goal = { minimumDetectableEffect: 0.05, weights: [1, 1, 1] }

  // R 4.2: power.t.test(power = .80, delta = .05, sd = 1, sig.level = .025) gives n = 7605.29
  t.same(sizes(metric, goal), [7606, 7606, 7606])
  t.same(sizes(metric, { ...goal, adjustForComparisons: false }), [6281, 6281, 6281])
})

t.test('the running time follows from the people per day', async (t) => {
  const metric: MetricExpectation = { kind: 'funnel', baseline: 0.1 }

  t.match(estimateSampleSize(metric, { minimumDetectableEffect: 0.2, exposedPerDay: 100, exposedSoFar: 500 }),
    { total: 7682, runningDays: 77, remainingDays: 72 })
  t.match(estimateSampleSize(metric, { minimumDetectableEffect: 0.2, exposedPerDay: 100, exposedSoFar: 1e6 }),
    { remainingDays: 0 })
  t.match(estimateSampleSize(metric, { minimumDetectableEffect: 0.2, exposedPerDay: 0 }),
    { runningDays: null, remainingDays: null })
})

t.test('where no number of people suffices, the answer names the reason', async (t) => {
  const cases: [number, number, string][] = [
    [0.1, 0, 'no_effect'], [0, 0.1, 'baseline_not_positive'], [0.6, 1, 'target_out_of_range'], [0.5, -2, 'target_out_of_range']
  ]
  for (const [baseline, minimumDetectableEffect, reason] of cases) {
    t.match(estimateSampleSize({ kind: 'funnel', baseline }, { minimumDetectableEffect }), { total: null, perVariant: null, reason })
  }
})

t.test('parameters that cannot be are refused by name', async (t) => {
  const refuse = (metric: MetricExpectation, goal: Partial<SampleSizeGoal>, message: RegExp) =>
    t.throws(() => estimateSampleSize(metric, { minimumDetectableEffect: 0.1, ...goal }), message)

  refuse({ kind: 'funnel', baseline: 1.5 }, {}, /baseline/)
  refuse({ kind: 'funnel', baseline: 0.5 }, { power: 1 }, /power/)
  refuse({ kind: 'funnel', baseline: 0.5 }, { significanceLevel: 0 }, /significanceLevel/)
  refuse({ kind: 'funnel', baseline: 0.5 }, { minimumDetectableEffect: NaN }, /minimumDetectableEffect/)
  refuse({ kind: 'funnel', baseline: 0.5 }, { weights: [0, 1] }, /weights/)
  refuse({ kind: 'funnel', baseline: 0.5 }, { weights: [1] }, /weights/)
  refuse({ kind: 'mean', baseline: 1, standardDeviation: -1 }, {}, /standardDeviation/)
  refuse({ kind: 'count', baseline: 1 }, { exposedPerDay: -1 }, /exposedPerDay/)
})

function sizes (expectation: MetricExpectation, goal: SampleSizeGoal) {
  return estimateSampleSize(expectation, goal).perVariant
}
