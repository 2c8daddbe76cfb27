import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createExperiments, DAY, EXPERIMENT, luck, START } from '../testing/plant-experiment.ts'

const { client, plant, shared } = await createExperiments(t)

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
    [{ excluded_variants: ['test', 'third'] }, 'excluded_variants'], [{ excluded_variants: ['thrid'] }, 'excluded_variants'], [{ stats_config: { baseline_variant_key: 'nobody' } }, 'stats_config__baseline_variant_key'],
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
