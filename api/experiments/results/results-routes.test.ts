import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { connectClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createTestApi } from '../../testing/create-test-api.ts'

const START = Date.parse('2026-01-01T00:00:00Z')
const NOW = Date.parse('2026-01-10T12:00:00Z')
const DAY = 86_400_000

const { client } = await createTestClickHouse(t)
const shared = await createTestApi(t, { clickhouse: client, now: () => NOW })

const EXPERIMENT = {
  name: 'Checkout', feature_flag_key: 'checkout', start_date: '2026-01-01T00:00:00Z',
  filters: { insight: 'FUNNELS', events: [{ id: 'paid' }] },
  secondary_metrics: [
    { name: 'Revenue', filters: { insight: 'TRENDS', events: [{ id: 'paid', math: 'sum', math_property: 'amount' }] } },
    { name: 'Basket', kind: 'mean', event: 'paid', property: 'amount' }
  ]
}

interface Planted {
  people: number
  /** Which variant a person sees. */
  variant: (person: number) => string
  /** Whether a person pays. */
  converts: (person: number, variant: string) => boolean
}

/** Plants exposures over the first eight days, and payments of 10 an hour after. */
async function plant (projectId: number, planted: Planted): Promise<void> {
  const { people, variant, converts } = planted
  const values: object[] = []
  for (let person = 0; person < people; person++) {
    const at = START + Math.floor(person / people * 8 * DAY)
    const common = { project_id: projectId, distinct_id: `person ${person}`, received_at: at }
    const shown = variant(person)
    values.push({
      ...common, uuid: randomUUID(), event: '$feature_flag_called', timestamp: at, properties: '{}',
      feature_flag: 'checkout', feature_flag_response: shown
    })
    if (converts(person, shown)) {
      values.push({ ...common, uuid: randomUUID(), event: 'paid', timestamp: at + 3_600_000, properties: '{"amount": 10}' })
    }
  }
  await client.insert({ table: 'events', values, format: 'JSONEachRow' })
}

/** Spreads people evenly over 0 to 999, whatever their number's order. */
const luck = (person: number): number => person * 7919 % 1000

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

t.test('raises the flag when people were split 60 to 40', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, {
    people: 2000, variant: (person) => luck(person) < 600 ? 'control' : 'test', converts: () => false
  })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  const { body } = await api.call('GET', `~/experiments/${experiment.id}/results`)

  t.match(body.result.exposures, { total: 2000, sample_ratio: { mismatch: true } })
  t.ok(body.result.exposures.sample_ratio.p_value < 1e-6)
  t.equal(body.result.significant, false)
})

t.test('answers the secondary metrics, one or all', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, {
    people: 400, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: (person) => person % 4 < 2
  })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
  const ask = async (query = ''): Promise<any> => await api.call('GET', `~/experiments/${experiment.id}/secondary_results${query}`)

  t.match(await ask(), {
    status: 200,
    body: { id: experiment.id, result: [{ control: 5, test: 5 }, { control: 10, test: 10 }], analysis: [{ kind: 'sum' }, { kind: 'mean' }] }
  })
  t.match(await ask('?id=1'), {
    body: { result: { control: 10, test: 10 }, analysis: { metric: { name: 'Basket' }, variants: [{ exposed: 200, measured: 100 }, {}] } }
  })
  t.match(await ask('?id=one'), { status: 400, body: { detail: 'Secondary metric id must be an integer', attr: 'id' } })
  t.match(await ask('?id=2'), { status: 400, body: { detail: 'Invalid metric ID', attr: 'id' } })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { secondary_metrics: {} })
  t.match(await ask(), { status: 400, body: { detail: 'Experiment has no secondary metrics', attr: 'secondary_metrics' } })
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
  t.match(guardrails[0].guardrail, { margin: 5, goal: 'increase', variants: [{ key: 'test', at_any_time: /holds|unclear/ }] })
  for (const [metric, attr] of [
    [{ kind: 'count', event: 'paid', role: 'guardrail' }, 'margin'], [{ kind: 'count', event: 'paid', margin: 3 }, 'margin'], [{ kind: 'count', event: 'paid', role: 'x' }, 'role'],
    [{ kind: 'funnel', event: 'paid', quantile: 0.5 }, 'quantile'], [{ kind: 'sum', event: 'paid', property: 'a', quantile: 1 }, 'quantile'],
    [{ kind: 'count', event: 'paid', upper_bound_percentile: 99 }, 'upper_bound_percentile'], [{ kind: 'ratio', numerator: { event: 'a' }, denominator: { event: '' } }, 'denominator__event'],
    [{ kind: 'ratio', numerator: { event: 'a', math: 'avg' }, denominator: { event: 'b' } }, 'numerator__math'], [{ kind: 'count', event: 'a', upper_percentile: 0.9 }, 'upper_percentile'],
    [{ kind: 'retention', start_event: { event: 'a' }, completion_event: { event: 'b' }, retention_window_start: 3, retention_window_end: 2 }, 'retention_window_end'],
    [{ kind: 'retention', start_event: { event: 'a' } }, 'completion_event__event']
  ] as const) {
    await api.call('PATCH', `~/experiments/${experiment.id}`, { secondary_metrics: [metric] })
    t.match(await api.call('GET', `~/experiments/${experiment.id}/secondary_results`), { status: 400, body: { attr: `secondary_metrics__0__${attr}` } }, attr)
  }
})

t.test('obeys excluded variants, another baseline and exposure, and says what CUPED did', async (t) => {
  const api = await shared.inNewProject()
  const shares = ['control', 'test', 'third'].map((key, index) => ({ key, rollout_percentage: [50, 25, 25][index] }))
  await plant(api.projectId, { people: 1200, variant: (person) => ['control', 'test', 'control', 'third'][person % 4]!, converts: (person) => luck(person) < 300 })
  const before = Array.from({ length: 600 }, (_, person) => ({
    project_id: api.projectId, uuid: randomUUID(), event: 'paid', distinct_id: `person ${person}`, received_at: START, timestamp: START - (luck(person) < 300 ? 2 : 40) * DAY, properties: '{}'
  }))
  await client.insert({ table: 'events', values: before, format: 'JSONEachRow' })
  const { body: experiment } = await api.call('POST', '~/experiments', { ...EXPERIMENT, parameters: { feature_flag_variants: shares } })
  const ask = async (parameters: object): Promise<any> => {
    await api.call('PATCH', `~/experiments/${experiment.id}`, { parameters })
    return await api.call('GET', `~/experiments/${experiment.id}/results`)
  }
  t.match((await ask({ excluded_variants: ['third'], stats_config: { baseline_variant_key: 'test', cuped: { enabled: true, lookback_days: 20 } } })).body.result, {
    baseline: 'test', variants: [{ key: 'control', exposed: 600 }, { key: 'test', exposed: 300, comparison: null }],
    exposures: { total: 900, multiple_variant_handling: 'exclude', sample_ratio: { mismatch: false, variants: [{ expected: 600 }, { expected: 300 }] } },
    adjustments: {
      cuped: { applied: true, reason: null, lookback_days: 20, share_with_history: 0.15, variance_reduction: Number },
      winsorized: null,
      quantile: null
    },
    sample_size: { total: Number }
  })
  t.match((await ask({ stats_config: { cuped: { enabled: true, lookback_days: 1 } }, exposure_criteria: { multiple_variant_handling: 'first_seen' } })).body.result, {
    variants: { length: 3 }, adjustments: { cuped: { applied: false, reason: 'too_little_history', share_with_history: 0 } }, exposures: { multiple_variant_handling: 'first_seen' }
  })
  for (const [parameters, attr] of [
    [{ excluded_variants: ['test', 'third'] }, 'excluded_variants'], [{ stats_config: { baseline_variant_key: 'nobody' } }, 'stats_config__baseline_variant_key'],
    [{ excluded_variants: ['third'], stats_config: { baseline_variant_key: 'third' } }, 'stats_config__baseline_variant_key']
  ] as const) t.match(await ask(parameters), { status: 400, body: { attr: `parameters__${attr}` } }, attr)
  t.match((await ask({ custom_exposure_filter: { events: [{ id: 'opened' }] } })).body.result, { exposures: { total: 0 } })
})

t.test('what becomes of the flag after the end changes no result', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, {
    people: 400, variant: (person) => person % 4 === 0 ? 'control' : 'test', converts: (person) => person % 8 < 2
  })
  const shares = (keys: Record<string, number>): object[] =>
    Object.entries(keys).map(([key, percentage]) => ({ key, rollout_percentage: percentage }))
  const variants = shares({ control: 25, test: 75 })
  const { body: experiment } = await api.call('POST', '~/experiments', { ...EXPERIMENT, parameters: { feature_flag_variants: variants } })
  const flag = `~/feature_flags/${experiment.feature_flag.id}`
  const ask = async (): Promise<any> => {
    const { status, body } = await api.call('GET', `~/experiments/${experiment.id}/results?refresh=true`)
    const { feature_flag_key: key, feature_flag_variants: kept } = body.measured ?? {}
    return { status, result: body.result, key, kept }
  }
  t.match(await api.call('PATCH', `~/experiments/${experiment.id}`, { end_date: '2026-01-09' }), { status: 200 })
  const before = await ask()
  t.match(before, {
    status: 200, key: 'checkout', kept: variants,
    result: { variants: [{ key: 'control', exposed: 100 }, { key: 'test', exposed: 300 }], exposures: { sample_ratio: { mismatch: false } } }
  })
  const edit = (keys: Record<string, number>): object =>
    ({ filters: { groups: [{ properties: [], rollout_percentage: 100 }], multivariate: { variants: shares(keys) } } })
  const next = { name: 'Next', feature_flag_key: 'checkout', start_date: '2026-01-09', parameters: { feature_flag_variants: shares({ control: 50, other: 50 }) } }

  for (const [what, act] of Object.entries({
    'new shares': async () => await api.call('PATCH', flag, edit({ control: 90, test: 10 })),
    'removed variants': async () => await api.call('PATCH', flag, edit({ control: 50, other: 50 })),
    'the next experiment': async () => await api.call('POST', '~/experiments', next),
    'no variants at all': async () => await api.call('PATCH', flag, { filters: { groups: [] } }),
    'another key': async () => await api.call('PATCH', flag, { key: 'renamed' }),
    'no flag': async () => await api.call('DELETE', flag)
  })) {
    if (what === 'no variants at all') {
      const { body: { results: [{ id }] } } = await api.call('GET', '~/experiments')
      await api.call('DELETE', `~/experiments/${id}`)
    }
    t.match(await act(), { status: /^20/ }, what)
    t.same(await ask(), before, what)
  }
  t.match(await api.call('GET', `~/experiments/${experiment.id}/secondary_results?id=0`), {
    body: { analysis: { variants: [{ key: 'control', exposed: 100 }, { key: 'test', exposed: 300 }] }, measured: { feature_flag_key: 'checkout' } }
  })
})

t.test('says when what it measures was changed', async (t) => {
  const api = await shared.inNewProject()
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
  await api.call('PATCH', `~/feature_flags/${experiment.feature_flag.id}`, { active: false })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { filters: { insight: 'FUNNELS', events: [{ id: 'bought' }] } })

  const { body } = await api.call('GET', `~/experiments/${experiment.id}/results`)

  t.match(body.measured, { feature_flag_key: 'checkout', changes: [{ fields: ['filters'] }, { fields: ['feature_flag'] }, { fields: [] }] })
  t.equal(body.measured.changes.length, 3)
})

t.test('tells a misspelt event or property from one that nobody reached', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, { people: 40, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: () => true })
  const warningsOf = async (metric: object): Promise<unknown> => {
    const { body: experiment } = await api.call('POST', '~/experiments', { ...EXPERIMENT, filters: { metric } })
    return (await api.call('GET', `~/experiments/${experiment.id}/results`)).body.result.warnings
  }
  const unseen = (event: string): object => ({ code: 'event_not_seen', event, property: null })

  t.same(await warningsOf({ kind: 'funnel', event: 'paid' }), [])
  t.match(await warningsOf({ kind: 'funnel', event: 'payd' }), [unseen('payd')])
  t.match(await warningsOf({ kind: 'funnel', steps: ['paid', 'Paid', 'paid'] }), [unseen('Paid')])
  t.same(await warningsOf({ kind: 'funnel', event: 'paid', where: [{ key: 'amount', value: 11 }] }), [])
  t.same(await warningsOf({ kind: 'mean', event: 'paid', property: 'amount' }), [])
  t.match(await warningsOf({ kind: 'mean', event: 'paid', property: 'amuont' }), [{ code: 'property_without_numbers', event: 'paid', property: 'amuont' }])
  t.match(await warningsOf({ kind: 'sum', event: 'payd', property: 'amount' }), [unseen('payd')])
  t.match(await warningsOf({ kind: 'count', event: '__proto__' }), [unseen('__proto__')])
})

t.test('whatever amounts were sent, whenever it began, there are results', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, { people: 400, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: () => true })
  const send = async (person: number, day: number, amount: unknown): Promise<void> => {
    const at = START + day * DAY
    const row = {
      project_id: api.projectId, uuid: randomUUID(), event: 'paid', distinct_id: `person ${person}`, timestamp: at, received_at: at, properties: JSON.stringify({ amount })
    }
    await client.insert({ table: 'events', values: [row], format: 'JSONEachRow' })
  }
  const { body: experiment } = await api.call('POST', '~/experiments', { ...EXPERIMENT, filters: EXPERIMENT.secondary_metrics[0]!.filters, start_date: '1000-01-01' })
  const ask = async (): Promise<any> => await api.call('GET', `~/experiments/${experiment.id}/results?refresh=true`)
  const { body: before } = await ask()

  await send(2, 2, 1e15)
  await send(2, 5, -1e15)
  t.same((await ask()).body.result.variants, before.result.variants, 'nothing is left of what was taken back')
  for (const amount of [1e60, -1e60, '1e300', 'NaN', 'inf', '-Infinity', '9'.repeat(400), {}, [1]]) await send(3, 3, amount)
  t.match(await ask(), { status: 200, body: { result: { variants: [{ sum: 2000 }, { sum: 2000 }] } } })
  await send(4, 4, 1e60)
  t.match(await ask(), { status: 200, body: { result: { variants: [{ sum: 1e60 }, { sum: 2000 }] } } })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { end_date: '1900-01-01' })
  t.match(await ask(), { status: 200, body: { result: { exposures: { total: 0 } } } })
})

t.test('answers before anybody was exposed', async (t) => {
  const api = await shared.inNewProject()
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  const { status, body } = await api.call('GET', `~/experiments/${experiment.id}/results`)

  t.equal(status, 200)
  t.match(body.result, {
    significant: false, significance_code: 'not_enough_exposure', sample_size: null,
    variants: [{ exposed: 0, mean: null }, { exposed: 0 }], exposures: { total: 0, multiple_variants: 0 }
  })
})

t.test('says what is missing for results', async (t) => {
  const api = await shared.inNewProject()
  const { body: draft } = await api.call('POST', '~/experiments', { ...EXPERIMENT, start_date: null })
  const ask = async (): Promise<any> => await api.call('GET', `~/experiments/${draft.id}/results`)

  t.match(await ask(), { status: 400, body: { code: 'not_launched', detail: 'Experiment has not been launched yet.', attr: 'start_date' } })
  await api.call('PATCH', `~/experiments/${draft.id}`, { start_date: '2999-01-01' })
  t.match(await ask(), { status: 400, body: { code: 'not_launched' } }, 'a start in the future')
  await api.call('PATCH', `~/experiments/${draft.id}`, { filters: {}, secondary_metrics: [] })
  for (const path of ['results', 'secondary_results']) {
    t.match(await api.call('GET', `~/experiments/${draft.id}/${path}`), { status: 400, body: { code: 'not_launched' } }, `${path} without a metric`)
  }
  await api.call('PATCH', `~/experiments/${draft.id}`, { start_date: '2026-01-01' })
  t.match(await ask(), { status: 400, body: { detail: 'Experiment has no target metric', attr: 'filters' } })
  await api.call('PATCH', `~/experiments/${draft.id}`, { filters: { events: [{ id: 'paid', math: 'p99' }] } })
  t.match(await ask(), { status: 400, body: { attr: 'filters__events__0__math' } })
  t.match(await api.call('GET', '~/experiments/4711/results'), { status: 404 })
})

t.test('answers 503 while ClickHouse is unavailable, and goes on serving experiments', async (t) => {
  const api = await createTestApi(t)
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  for (const path of ['results', 'secondary_results']) {
    t.match(await api.call('GET', `~/experiments/${experiment.id}/${path}`), {
      status: 503, headers: { 'retry-after': /\d/ }, body: { type: 'server_error', code: 'clickhouse_unavailable', detail: /ClickHouse/, attr: null }
    })
  }
  t.match(await api.call('GET', '~/experiments/requires_flag_implementation'), { status: 503 })
  t.equal((await api.call('GET', `~/experiments/${experiment.id}`)).status, 200)
  t.equal((await api.call('GET', '~/event_definitions')).status, 200)
})

t.test('answers 503 while ClickHouse starts or is overloaded, and 500 when an operator must act', async (t) => {
  let answer = ''
  const server = http.createServer((_request, response) => {
    response.writeHead(500, { 'x-clickhouse-exception-code': /\d+/.exec(answer)![0] }).end(answer)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clickhouse = connectClickHouse({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/millrace` })
  t.teardown(async () => {
    await clickhouse.close()
    server.close()
  })
  const api = await createTestApi(t, { clickhouse })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  for (const [text, status, code] of [
    ['Code: 668. DB::Exception: Server is starting. (INVALID_STATE)', 503, 'clickhouse_unavailable'],
    ['Code: 745. DB::Exception: CPU is overloaded. (SERVER_OVERLOADED)', 503, 'clickhouse_unavailable'],
    ['Code: 159. DB::Exception: Timeout exceeded: elapsed 60001.5 ms, maximum: 60000 ms. (TIMEOUT_EXCEEDED)', 503, 'clickhouse_timeout'],
    ['Code: 60. DB::Exception: Table events does not exist. (UNKNOWN_TABLE)', 500, 'error']
  ] as const) {
    answer = text
    const { status: answered, headers, body } = await api.call('GET', `~/experiments/${experiment.id}/results`)
    t.match({ answered, code: body.code }, { answered: status, code }, text)
    t.equal(headers['retry-after'], status === 503 ? '5' : undefined)
  }
})

t.test('remembers results for five minutes, unless asked to refresh', async (t) => {
  let now = NOW
  const api = await createTestApi(t, { clickhouse: client, now: () => now })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
  const ask = async (query = ''): Promise<any> => (await api.call('GET', `~/experiments/${experiment.id}/results${query}`)).body

  const first = await ask()
  now += 60_000
  const second = await ask()
  const third = await ask('?refresh=true')
  const fourth = await ask()
  now += 300_000
  const fifth = await ask()

  t.match(first, { is_cached: false, last_refresh: new Date(NOW).toISOString() })
  t.match(second, { is_cached: true, last_refresh: first.last_refresh })
  t.match(third, { is_cached: false, last_refresh: new Date(NOW + 60_000).toISOString() })
  t.match(fourth, { is_cached: true, last_refresh: third.last_refresh })
  t.match(fifth, { is_cached: false })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { filters: { events: [{ id: 'other' }] } })
  t.match(await ask(), { is_cached: false }, 'another metric is another result')
})

t.test('tells whether events lack the values of flags', async (t) => {
  const api = await createTestApi(t, { clickhouse: client })
  const ask = async (query = ''): Promise<any> => await api.call('GET', `~/experiments/requires_flag_implementation${query}`)
  t.match(await ask(), { status: 200, body: { result: true, events: [] } }, 'without any experiment')
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
  const insert = async (event: string, properties: object): Promise<void> => {
    const now = Date.now()
    const row = {
      project_id: api.projectId, uuid: randomUUID(), event, distinct_id: 'a', timestamp: now, received_at: now,
      properties: JSON.stringify(properties)
    }
    await client.insert({ table: 'events', values: [row], format: 'JSONEachRow' })
  }

  await insert('paid', { amount: 1 })
  t.match(await ask(), { body: { id: experiment.id, name: 'Checkout', result: true, events: [{ event: 'paid', looked_at: 1, with_flags: 0 }] } })
  await insert('paid', { '$feature/checkout': 'test' })
  t.match(await ask(`/?id=${experiment.id}`), { body: { result: false, events: [{ looked_at: 2, with_flags: 1 }] } })
  t.match(await ask('?events=["paid","view"]'), { body: { result: false, events: [{ event: 'paid' }, { event: 'view', looked_at: 0 }] } })
  t.match(await ask('?events=view'), { body: { result: true } })
})
