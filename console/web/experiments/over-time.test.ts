import t from 'tap'
import type { Interval, MissingInterval, Results, VariantOfDay } from './describe-experiment.ts'
import { concludeDay, describeStop, drawCourse, explainMissing } from './over-time.ts'

/** A variant at the end of a day, by its interval, or by why it has none. */
function day (interval: Interval | MissingInterval): VariantOfDay {
  const known = typeof interval === 'string' ? null : interval
  return {
    key: 'test', exposed: 100, relative_lift: known === null ? null : (known[0] + known[1]) / 2, sequential_p_value: null,
    sequential_absolute_interval: known, sequential_relative_interval: known, missing_interval: typeof interval === 'string' ? interval : null
  }
}

function series (...intervals: (Interval | MissingInterval)[]): Results['series'] {
  return intervals.map((interval, index) => ({ day: `2026-01-0${index + 1}`, variants: [day(interval)] }))
}

t.test('says day by day what one would have concluded', async (t) => {
  t.equal(concludeDay(day([0.1, 0.3]), 'control'), 'more than control')
  t.equal(concludeDay(day([-0.3, -0.1]), 'control'), 'less than control')
  t.equal(concludeDay(day([-0.3, 0.1]), 'control'), 'no difference shown')
  t.equal(concludeDay(day('variant_not_exposed'), 'control'), 'nobody saw it')
  t.equal(concludeDay(undefined, 'control'), 'not known')
})

t.test('a difference without a ratio is a conclusion all the same', async (t) => {
  const near = { ...day('baseline_near_zero'), sequential_absolute_interval: [0.01, 0.2] as Interval }

  t.equal(concludeDay(near, 'control'), 'more than control')
  t.match(concludeDay(day('baseline_near_zero'), 'control'), /too little data/, 'and without one the day says why')
})

t.test('each reason has words of its own', async (t) => {
  const reasons = [
    'variant_not_exposed', 'baseline_not_exposed', 'too_few_values', 'values_do_not_vary', 'baseline_near_zero', null
  ] as const

  t.equal(new Set(reasons.map((reason) => explainMissing(reason, 'control'))).size, reasons.length)
})

t.test('the first day that leaves zero out is the one to stop at', async (t) => {
  const early = series('baseline_near_zero', [-1, 2], [0.1, 0.5], [0.2, 0.4])
  t.equal(describeStop(early, 'test', 'control'),
    'checking every day, you could have stopped at the end of 2026-01-03 and concluded: more than control (+30.0 % up to then).')
  t.match(describeStop(series([-0.5, -0.1], [-0.3, 0.1]), 'test', 'control'), /2026-01-01 and concluded: less than control .* includes zero again/)
  t.match(describeStop(series([-1, 2], [-0.5, 1]), 'test', 'control'), /^too early to stop if you check every day: the interval has included zero on every day\. .*single check/)
  t.match(describeStop(series('baseline_near_zero'), 'test', 'control'), /too little data: control may still be zero/)
})

t.test('the wide intervals of the first days do not stretch the picture', async (t) => {
  const days = series('variant_not_exposed', [-5, 9], [-0.5, 1], [-0.1, 0.4], [0, 0.3])

  t.same(drawCourse(days, 'test'), [
    ['2026-01-01', null, null, null], ['2026-01-02', 40, -10, 40], ['2026-01-03', 25, -10, 40], ['2026-01-04', 15, -10, 40], ['2026-01-05', 15, 0, 30]
  ])
})

t.test('without any interval there is no picture', async (t) => {
  t.equal(drawCourse(series('variant_not_exposed', 'baseline_near_zero'), 'test'), null)
  t.equal(drawCourse([], 'test'), null)
})
