/** `millrace import-flags`: imported objects, skipped ones with their reasons, and sources. */
import t from 'tap'
import type { CarriedItem } from '../import/carry-over.ts'
import { startHttp, writeFiles } from '../testing/posthog-double.ts'
import { type Captured, startApi } from '../testing/run-captured.ts'

type Json = Record<string, any>

t.test('what would answer otherwise is left out with its reason, and so is what names it', async (t) => {
  const api = await startApi(t)
  const half = { groups: [{ rollout_percentage: 50 }] }
  const shares = (...of: number[]): Json => {
    const variants = of.map((share, i) => ({ key: `v${i}`, rollout_percentage: share }))
    return { filters: { groups: [], multivariate: { variants } } }
  }
  const flag = (id: number, more: Json): Json =>
    ({ id, key: `flag-${id}`, name: '', active: true, deleted: false, filters: half, ...more })
  const asks = (property: Json): Json => ({ filters: { groups: [{ properties: [property] }] } })
  const behavioral = { type: 'behavioral', key: 'paid', value: 'performed_event', event_type: 'events', time_value: '30', time_interval: 'day', negation: false, bytecode: ['_H', 1], explicit_datetime: null }
  const paying = { key: 'plan', value: ['pro'], operator: 'exact', type: 'person', negation: false, bytecode: ['_H', 1] }
  const group = (values: Json[]): Json => ({ properties: { type: 'OR', values: [{ type: 'AND', values }] } })
  const folder = await writeFiles(t, {
    'flags.json': [
      flag(1, { ensure_experience_continuity: true }),
      flag(2, asks({ key: '1', type: 'flag', operator: 'flag_evaluates_to', value: true })),
      flag(3, { ensure_experience_continuity: true, filters: { groups: [{ rollout_percentage: 100 }] } }),
      flag(4, { has_encrypted_payloads: true }),
      flag(5, { evaluation_contexts: ['docs'] }),
      flag(6, asks({ key: 'id', type: 'cohort', value: 11 })),
      flag(7, asks({ key: 'id', type: 'cohort', value: 13 })),
      flag(8, { filters: { rules: [], version: 2 } }),
      flag(9, { filters: { groups: [], aggregation_group_type_index: 0 } }),
      flag(10, asks({ key: 'at', type: 'person', operator: 'is_date_after', value: '2025-01-01' })),
      flag(11, { key: 'a b' }),
      flag(12, { deleted: true }),
      flag(13, shares(40, 40, 40)),
      flag(14, asks({ key: 'x', type: 'person', operator: 'min', value: 3 })),
      flag(15, {
        active: false,
        filters: {
          groups: [{ variant: 'gone' }],
          multivariate: { variants: [{ key: 'gpt/4.1', rollout_percentage: 100 }] },
          payloads: { gone: '1' }
        }
      }),
      flag(16, { key: null }),
      flag(17, { key: 'flag-15' }),
      flag(18, shares(150)),
      flag(19, shares(33.3, 33.3, 33.4)),
      flag(20, shares(50, -20, 70, 30)),
      flag(21, shares(40)),
      flag(22, {
        filters: {
          groups: [{ rollout_percentage: 120 }, { rollout_percentage: -5 }],
          holdout: { id: 4, exclusion_percentage: 101 }
        }
      })
    ],
    'cohorts.json': [
      { id: 11, name: 'Buyers', is_static: false, filters: group([behavioral, { ...behavioral, value: 'performed_event_multiple', operator: 'lte', operator_value: 5 }]) },
      { id: 15, name: 'In order', is_static: false, filters: group([{ ...behavioral, value: 'performed_event_sequence', seq_event: 'seen' }]) },
      { id: 12, name: 'List', is_static: true, filters: null },
      { id: 13, name: 'Not paying', is_static: false, filters: group([{ type: 'cohort', key: 'id', value: 14, negation: true }]) },
      { id: 14, name: 'Paying', is_static: false, filters: group([paying]) }
    ],
    'notes.json': 'text',
    'other.json': '{}',
    'twice.json': { count: 2, next: null, results: ['', ''].map(() => ({ group_type: 'org', group_type_index: 0 })) }
  })
  const dry = await api.run('import-flags', folder, '--dry-run')
  t.match(dry, { code: 1, out: /cohort +3 +0 +0 +2\nflag +11 +0 +0 +10/, err: 'notes.json is not JSON' })
  t.match(dry.out, /a b +key: Only letters/, 'what the API would refuse')
  t.match(dry.out, /flag-13 +shares 40\/40\/40 are served as 40\/40\/20\n/)
  t.match(dry.out, /flag-15 +another flag in the files has this key/)
  t.match(dry.err, /other\.json is not recognized[^]*groups_types: the files have 1 of 2; some are in them more than once/)
  t.same((await api.call('GET', '~/feature_flags/')).body.results, [], 'nothing was created')

  const { out, code } = await api.run('import-flags', folder, '--json')
  t.equal(code, 1)
  const items: CarriedItem[] = JSON.parse(out).items
  const reasons = Object.fromEntries(items.filter(({ reason }) => reason !== undefined)
    .map(({ name, reason }) => [name, reason]))
  t.match(reasons, {
    'flag-1': 'PostHog does not export which id it hashes', 'flag-2': 'depends on flag 1, which was not imported', 'flag-4': 'encrypted',
    'flag-5': 'evaluation contexts (docs)', 'flag-8': 'filters has unsupported fields: rules, version',
    'flag-9': 'group type 0', 'flag-10': 'share a time zone', 'a b': 'key: Only letters', null: 'its key is no text',
    'In order': 'performed_event_sequence) has unsupported fields: seq_event', List: 'static cohort'
  })
  const created = items.filter(({ kind, outcome }) => kind === 'flag' && outcome === 'created').map(({ name }) => name)
  t.same(created, ['flag-3', 'flag-6', 'flag-7', 'flag-13', 'flag-14', 'flag-15', ...[18, 19, 20, 21, 22].map((id) => `flag-${id}`)])
  t.same(Object.fromEntries(items.filter(({ note }) => note !== undefined).map(({ name, note }) => [name, note])), {
    'flag-13': 'shares 40/40/40 are served as 40/40/20', 'flag-18': 'shares 150 are served as 100',
    'flag-20': 'shares 50/-20/70/30 are served as 50/0/50/0', 'flag-21': 'shares 40 are served as 40, and 60 % on without a variant',
    'flag-22': 'rollout_percentage 120 is served as 100; rollout_percentage -5 is served as 0; exclusion_percentage 101 is served as 100'
  })
  const buyers = (await api.call('GET', '~/cohorts')).body.results.find(({ name }: Json) => name === 'Buyers')
  const did = { type: 'behavioral', key: 'paid', event_type: 'events', time_value: 30, time_interval: 'day', negation: false }
  t.match(buyers.filters.values[0].values, [{ ...did, value: 'performed_event' }, { type: 'AND', values: [{ ...did, operator: 'lte', operator_value: 5 }, did] }],
    'at most, of those who did it')
  const { results } = (await api.call('GET', '~/feature_flags/?search=flag-15')).body
  t.match(results[0], { active: false, filters: { groups: [{ variant: null }], payloads: {} } })

  t.match(await api.run('import-flags', folder, '--with-continuity'), { out: /flag +2 +0 +11 / })
  await api.call('PATCH', `~/feature_flags/${String(results[0].id)}`, { name: 'Changed here' })
  t.match(await api.run('import-flags', folder), { out: /flag-15 +already exists here and differs in name; pass --update/ })
  t.match(await api.run('import-flags', folder, '--with-continuity', '--update'), { out: /flag +0 +1 +12 / })
})

t.test('experiments and definitions, read from the API of PostHog itself', async (t) => {
  const api = await startApi(t)
  const { sql, projectId } = api
  await sql`INSERT INTO event_definitions (project_id, name) VALUES (${projectId}, 'paid'), (${projectId}, 'seen')`
  await sql`UPDATE event_definitions SET description = 'Ours' WHERE name = 'seen'`
  const variants = ['control', 'test'].map((key) => ({ key, rollout_percentage: 80 }))
  const filters = { groups: [{}], multivariate: { variants } }
  const event = (more: Json = {}): Json => ({ kind: 'EventsNode', event: 'paid', ...more })
  const experiment = (id: number, more: Json): Json => ({
    id,
    name: `Experiment ${id}`,
    description: null,
    feature_flag_key: 'split',
    start_date: '2025-01-01T00:00:00Z',
    end_date: null,
    archived: false,
    parameters: { feature_flag_variants: variants, minimum_detectable_effect: 12 },
    metrics: [],
    metrics_secondary: [],
    saved_metrics: [],
    ...more
  })
  const metric = (more: Json): Json => ({ kind: 'ExperimentMetric', ...more })
  const lists: Record<string, Json[]> = {
    feature_flags: [{ id: 1, key: 'split', active: true, filters }, { id: 2, key: 'paused', active: false, filters }],
    cohorts: [],
    experiments: [
      experiment(1, {
        metrics: [metric({ metric_type: 'funnel', series: [event(), event({ event: 'seen' })], conversion_window: 36, conversion_window_unit: 'hour' })],
        metrics_secondary: [metric({ metric_type: 'mean', name: 'Revenue', source: event({ math: 'sum', math_property: 'amount' }) })]
      }),
      experiment(2, { metrics: [metric({ metric_type: 'ratio' })] }), experiment(3, { feature_flag_key: 'paused' }),
      experiment(4, { feature_flag_key: 'paused', end_date: '2025-02-01T00:00:00Z', filters: { insight: 'TRENDS', events: [{ id: 'paid', math: 'total' }] } }),
      experiment(5, { feature_flag_key: 'unknown' }),
      experiment(6, {
        parameters: { excluded_variants: ['b'], custom_exposure_filter: {} },
        exposure_criteria: { filterTestAccounts: true, exposure_config: { kind: 'ExperimentEventExposureConfig', event: 'opened', properties: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'event' }] }, multiple_variant_handling: 'first_seen' },
        stats_config: { version: 2, method: 'bayesian', baseline_variant_key: 'test', cuped: { enabled: true, lookback_days: 14 } },
        metrics: [
          metric({ metric_type: 'ratio', goal: 'decrease', numerator: event({ math: 'sum', math_property: 'amount' }), denominator: event({ event: 'seen' }), numerator_outlier_handling: { upper_bound_percentile: 0.99 } }),
          metric({ metric_type: 'mean', source: event(), lower_bound_percentile: 0, upper_bound_percentile: 0.95, ignore_zeros: true })
        ],
        metrics_secondary: [metric({ metric_type: 'retention', start_event: event(), completion_event: event({ event: 'seen' }), retention_window_start: 1, retention_window_end: 7, retention_window_unit: 'day', start_handling: 'first_seen' })]
      }),
      ...Object.entries({
        'a metric uses threshold': { metrics: [metric({ metric_type: 'mean', source: event(), threshold: 3 })] },
        'it uses only_count_matured_users': { only_count_matured_users: true },
        'it uses bayesian': { stats_config: { bayesian: { ci_level: 0.9 } } },
        'it uses activation_config': { exposure_criteria: { activation_config: { event: 'x' } } },
        'people are exposed by an action': { exposure_criteria: { exposure_config: { kind: 'ActionsNode', id: 3 } } }
      }).map(([name, more], index) => ({ ...experiment(7 + index, more), name: `Not: ${name}` }))
    ],
    event_definitions: [
      { id: 'a', name: 'paid', description: 'Money came in', verified: true, tags: ['money'], last_seen_at: null },
      { id: 'b', name: 'seen', description: 'Theirs', last_seen_at: null }, { id: 'c', name: 'never', description: 'Nowhere', last_seen_at: null },
      { id: 'd', name: 'plain', description: '', tags: [], last_seen_at: null }
    ]
  }
  const host = await startHttp(t, (url, authorization) => {
    const { pathname, searchParams } = new URL(url, 'http://x')
    const [, list] = /^\/api\/projects\/7\/(\w*)\/?$/.exec(pathname) ?? []
    if (authorization !== 'Bearer phx_old' || list === undefined) return undefined
    if (list === '') return { id: 7, api_token: 'phc_old', timezone: 'UTC' }
    const all = lists[list]
    if (all === undefined) return undefined
    const offset = Number(searchParams.get('offset'))
    // Another host than the one that is asked: the key must not go there.
    const next = offset + 2 < all.length ? `http://127.0.0.9:1${pathname}?offset=${offset + 2}` : null
    return { count: all.length, next, results: all.slice(offset, offset + 2) }
  })
  const run = async (): Promise<{ items: CarriedItem[], problems: string[] }> =>
    JSON.parse((await api.run('import-flags', '--from', host, '--from-key', 'phx_old', '--from-project', '7', '--json')).out)
  const { items, problems } = await run()
  t.match(problems, [/^property_definitions: .* answered 403/, /^groups_types: .* answered 403/])
  t.match(Object.fromEntries(items.map(({ name, outcome, reason }) => [name, reason ?? outcome])), {
    split: 'created', paused: 'created', 'Experiment 1': 'created', 'Experiment 2': /^a metric needs a single named event/, 'Experiment 3': 'its flag is off',
    'Experiment 4': 'created', 'Experiment 5': 'its flag unknown was not imported', paid: 'updated', seen: 'was already changed here: description', never: 'no event with it has arrived yet'
  })
  for (const { name, reason } of items) if (name.startsWith('Not: ')) t.equal(reason, name.slice(5))
  t.match(items.find(({ name }) => name === 'Experiment 6'), { outcome: 'created', note: /test accounts count/ })
  const [sixth, ...experiments] = (await api.call('GET', '~/experiments/')).body.results
  t.match(sixth, {
    parameters: {
      excluded_variants: ['b'], exposure_criteria: { exposure_config: { event: 'opened', properties: [{ key: 'plan', value: 'pro' }] }, multiple_variant_handling: 'first_seen' },
      stats_config: { baseline_variant_key: 'test', cuped: { enabled: true, lookback_days: 14 } }
    },
    filters: { metric: { kind: 'ratio', goal: 'decrease', numerator: { event: 'paid', property: 'amount', upper_bound_percentile: 0.99 }, denominator: { event: 'seen' } } },
    secondary_metrics: [
      { role: 'primary', metric: { kind: 'count', event: 'paid', upper_bound_percentile: 0.95, ignore_zeros: true } },
      { metric: { kind: 'retention', start_event: { event: 'paid' }, completion_event: { event: 'seen' }, retention_window_end: 7 } }
    ]
  })
  t.match(experiments[1], {
    name: 'Experiment 1', parameters: { minimum_detectable_effect: 12 }, start_date: '2025-01-01T00:00:00.000Z',
    filters: { metric: { kind: 'funnel', steps: [{ event: 'paid' }, { event: 'seen' }], window_days: 1.5 } },
    secondary_metrics: [{ metric: { kind: 'sum', event: 'paid', property: 'amount', name: 'Revenue' } }]
  })
  t.match(experiments[0], { name: 'Experiment 4', feature_flag: { active: false } }, 'one that has ended leaves its flag off')
  t.match((await api.call('GET', '~/event_definitions/?search=paid')).body.results, [{ description: 'Money came in', verified: true, tags: ['money'] }])
  t.same((await run()).items.map(({ outcome }) => outcome).filter((outcome) => outcome === 'created' || outcome === 'updated'), [])
  const from = async (url: string): Promise<Captured> => await api.run('import-flags', '--from', url, '--from-key', 'phx_old')
  t.match(await from('us.posthog.com'), { code: 1, err: /--from us\.posthog\.com is not a URL/ })
  t.match(await from('http://127.0.0.1:9'), { code: 1, err: /no answer from http:\/\/127\.0\.0\.1:9: / })
  t.match(await api.run('import-flags'), { code: 2, err: /give saved files, or --from/ })
})
