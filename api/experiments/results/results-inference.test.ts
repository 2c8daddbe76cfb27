import t from 'tap'
import { createExperiments, EXPERIMENT, luck, type Planted } from '../testing/plant-experiment.ts'

const { plant, shared } = await createExperiments(t)

t.test('finds the conversions that were planted among 20,000 people', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, {
    people: 20_000,
    variant: (person) => person % 2 === 0 ? 'control' : 'test',
    converts: (person, variant) => luck(person) < (variant === 'test' ? 120 : 100)
  })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  const { status, body } = await api.call('GET', `~/experiments/${experiment.id}/results/`)

  t.equal(status, 200)
  t.match(body, { id: experiment.id, name: 'Checkout', feature_flag: { key: 'checkout' }, is_cached: false, last_refresh: '2026-01-10T12:00:00.000Z' })
  t.match(body.result, {
    insight: 'FUNNELS', kind: 'funnel', baseline: 'control', leader: 'test', significant: true,
    significance_code: 'significant',
    variants: [
      { key: 'control', exposed: 10_000, measured: 10_000, sum: 1000, mean: 0.1, steps: [1000], comparison: null },
      { key: 'test', exposed: 10_000, sum: 1200, mean: 0.12, comparison: { frequentist: { reliable: true } } }
    ],
    exposures: { total: 20_000, multiple_variants: 0, sample_ratio: { mismatch: false } }
  })
  t.ok(Math.abs(body.result.variants[1].comparison.relative_lift - 0.2) < 1e-9)
  const [lower, upper] = body.result.credible_intervals.test
  t.ok(lower < 0.12 && upper > 0.12 && upper - lower < 0.02)
  t.ok(body.result.probability.test > 0.99)
  t.ok(Math.abs(body.result.probability.test + body.result.probability.control - 1) < 1e-9)
  t.equal(body.result.sample_size.minimum_detectable_effect, 5)
  t.same(body.result.series.map(({ day }: { day: string }) => day), [
    '2026-01-01', '2026-01-02', '2026-01-03', '2026-01-04', '2026-01-05', '2026-01-06', '2026-01-07', '2026-01-08',
    '2026-01-09', '2026-01-10'
  ])
  t.match(body.result.series[3], { variants: [{ key: 'control', exposed: 5000 }, { key: 'test', exposed: 5000 }] })
  const { relative_interval: wide, inner_relative_interval: inner } = body.result.variants[1].comparison.bayesian
  t.ok(wide[0] < inner[0] && inner[0] < 0.2 && inner[1] > 0.2 && inner[1] < wide[1], 'half of what the data allow lies within')
  t.equal(body.result.inner_level, 0.5)
})

t.test('the always-valid interval shrinks from day to day, and the last one is that of the result', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, {
    people: 20_000,
    variant: (person) => person % 2 === 0 ? 'control' : 'test',
    converts: (person, variant) => luck(person) < (variant === 'test' ? 150 : 100)
  })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  const { body: { result } } = await api.call('GET', `~/experiments/${experiment.id}/results/`)

  const days = result.series.map(({ variants }: any) => variants[1])
  const widths = days.slice(0, 8).map(({ sequential_relative_interval: [low, high] }: any) => high - low)
  t.ok(widths.every((width: number, index: number) => index === 0 || width < widths[index - 1]), `${widths}`)
  t.ok(days.every(({ sequential_relative_interval: [low, high] }: any) => low < 0.5 && high > 0.5), 'the planted change lies in every one')
  const { sequential, relative_lift: lift, absolute_lift: difference } = result.variants[1].comparison
  t.match(days.at(-1), {
    sequential_absolute_interval: sequential.absolute_interval,
    sequential_relative_interval: sequential.relative_interval,
    sequential_p_value: sequential.p_value, relative_lift: lift, absolute_lift: difference, missing_interval: null
  })
  t.ok(sequential.relative_interval[0] > 0, 'one could have stopped')
  t.match(result.series[0].variants[0], { key: 'control', missing_interval: null, sequential_relative_interval: null })
})

t.test('a day without an interval says why', async (t) => {
  const reasonOf = async (planted: Planted): Promise<unknown> => {
    const api = await shared.inNewProject()
    await plant(api.projectId, planted)
    const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
    const { body } = await api.call('GET', `~/experiments/${experiment.id}/results/`)
    return body.result.series.at(-1).variants[1].missing_interval
  }

  t.equal(await reasonOf({ people: 20, variant: () => 'control', converts: () => true }), 'variant_not_exposed')
  t.equal(await reasonOf({ people: 20, variant: () => 'test', converts: () => true }), 'baseline_not_exposed')
  t.equal(await reasonOf({ people: 40, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: () => false }), 'baseline_near_zero')
})

t.test('corrects primary metrics together, explores the others, and judges guardrails by their margin', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, {
    people: 4000, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: (person, variant) => luck(person) < (variant === 'test' ? 145 : 120)
  })
  const guardrail = (margin: number, more: object = {}): object => ({ name: `at most ${margin} %`, metric: { kind: 'funnel', event: 'paid' }, role: 'guardrail', margin, ...more })
  const { body: experiment } = await api.call('POST', '~/experiments', {
    ...EXPERIMENT,
    secondary_metrics: [
      { kind: 'count', event: 'paid', role: 'primary' }, { kind: 'sum', event: 'paid', property: 'amount' }, guardrail(5),
      guardrail(5, { goal: 'decrease' }), guardrail(80, { goal: 'decrease' }), { role: 'primary', filters: { events: [{ id: 'none' }] } }
    ]
  })
  const { body: { result } } = await api.call('GET', `~/experiments/${experiment.id}/results`)
  const { body: { analysis } } = await api.call('GET', `~/experiments/${experiment.id}/secondary_results`)

  const [count, sum, ...guardrails] = analysis
  t.match(result, { role: 'primary', correction: { method: 'holm', metrics: 3 } })
  t.match(count, { role: 'primary', correction: result.correction })
  t.match(sum, { role: 'secondary', correction: null, guardrail: null })
  const pOf = (of: any): { p_value: number, adjusted_p_value: number } => of.variants[1].comparison.frequentist
  const both = [pOf(result), pOf(count)].sort((a, b) => a.p_value - b.p_value)
  const smallest = Math.min(3, result.correction.comparisons) * both[0]!.p_value
  t.ok(Math.abs(both[0]!.adjusted_p_value / smallest - 1) < 1e-9, 'Holm multiplies the smallest by all comparisons')
  t.ok(both[1]!.adjusted_p_value >= both[0]!.adjusted_p_value)
  t.equal(pOf(sum).adjusted_p_value, pOf(sum).p_value)
  t.ok(result.variants[1].comparison.sequential.adjusted_p_value >= result.variants[1].comparison.sequential.p_value)
  t.match(guardrails.slice(0, 3).map(({ guardrail: judged }: any) => judged.variants[0].at_the_end), ['holds', 'unclear', 'holds'])
  await api.call('PATCH', `~/experiments/${experiment.id}`, { filters: { metric: { kind: 'funnel', event: 'paid', goal: 'decrease' } } })
  const { body: { result: less } } = await api.call('GET', `~/experiments/${experiment.id}/results`)
  t.match([result.leader, less.leader, less.variants[1].mean], ['test', 'control', result.variants[1].mean], 'less is better')
  t.match(guardrails[0].guardrail, { margin: 5, goal: 'increase', variants: [{ key: 'test', at_any_time: /holds|unclear/ }] })
  for (const [metric, attr] of [
    [{ kind: 'count', event: 'paid', role: 'guardrail' }, 'margin'], [{ kind: 'count', event: 'paid', margin: 3 }, 'margin'], [{ kind: 'count', event: 'paid', role: 'x' }, 'role'],
    [{ kind: 'funnel', event: 'paid', quantile: 0.5 }, 'quantile'], [{ kind: 'sum', event: 'paid', property: 'a', quantile: 1 }, 'quantile'],
    [{ kind: 'count', event: 'paid', upper_bound_percentile: 99 }, 'upper_bound_percentile'], [{ kind: 'ratio', numerator: { event: 'a' }, denominator: { event: '' } }, 'denominator__event'],
    [{ kind: 'ratio', numerator: { event: 'a', math: 'avg' }, denominator: { event: 'b' } }, 'numerator__math'], [{ kind: 'count', event: 'a', upper_percentile: 0.9 }, 'upper_percentile'],
    [{ kind: 'retention', start_event: { event: 'a' }, completion_event: { event: 'b' }, retention_window_start: 3, retention_window_end: 2 }, 'retention_window_end'],
    [{ kind: 'retention', start_event: { event: 'a' } }, 'completion_event'], [{ kind: 'count', event: 'a', property: 'amount' }, 'property'],
    [{ kind: 'funnel', steps: [{ event: 'a', math: 'dau' }] }, 'steps__0__math'], [{ kind: 'funnel', steps: ['a'], where: [] }, 'where'],
    [{ kind: 'mean', event: 'a' }, 'property'], [{ kind: 'count' }, 'event'], [{ kind: 'count', event: 'a', window_days: 1e9 }, 'window_days'],
    [{ insight: 'FUNNELS', events: [{ id: 'a' }], funnel_order_type: 'unordered' }, 'funnel_order_type'],
    [{ metric: { kind: 'count', event: 'a' }, window_days: 2 }, 'window_days'], [{ insight: 'TRENDS', events: [{ id: 'a' }], window_days: 2 }, 'window_days']
  ] as const) {
    await api.call('PATCH', `~/experiments/${experiment.id}`, { secondary_metrics: [metric] })
    t.match(await api.call('GET', `~/experiments/${experiment.id}/secondary_results`), { status: 400, body: { attr: `secondary_metrics__0__${attr}` } }, attr)
  }
})
