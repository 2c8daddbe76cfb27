import t from 'tap'
import { createProject } from '../projects/project-routes.ts'
import { createTestApi } from '../testing/create-test-api.ts'

const shared = await createTestApi(t)

t.test('creates an experiment from a name and a flag key alone, and makes the flag', async (t) => {
  const api = await shared.inNewProject()

  const created = await api.call('POST', '~/experiments/', { name: 'Checkout', feature_flag_key: 'checkout' })

  t.match(created, {
    status: 201,
    body: {
      name: 'Checkout', description: '', start_date: null, end_date: null, feature_flag_key: 'checkout',
      parameters: {}, secondary_metrics: {}, filters: {}, archived: false,
      created_by: { id: api.user.id, email: api.user.email, is_email_verified: false },
      feature_flag: {
        team_id: api.projectId, name: 'Feature Flag for Experiment Checkout', key: 'checkout', active: false,
        deleted: false, ensure_experience_continuity: false,
        filters: {
          groups: [{ properties: [], rollout_percentage: 100 }],
          multivariate: {
            variants: [{ key: 'control', rollout_percentage: 50 }, { key: 'test', rollout_percentage: 50 }]
          }
        }
      }
    }
  })
  t.same((await api.call('GET', `~/experiments/${created.body.id}`)).body, created.body)
  t.same((await api.call('GET', `~/experiments/${created.body.id}/`)).body, created.body)
})

t.test('keeps what a client wrote, in free-form fields as it was written', async (t) => {
  const api = await shared.inNewProject()
  const body = {
    name: 'Everything', description: 'd', start_date: '2026-01-02T03:04:05.678Z', end_date: '2026-02-01T00:00:00Z',
    feature_flag_key: 'everything', archived: true,
    parameters: { minimum_detectable_effect: 5, nested: { deep: [1, null, 'ü'] } },
    secondary_metrics: [{ name: 's', filters: { insight: 'TRENDS', events: [{ id: 'paid' }] } }],
    filters: { insight: 'FUNNELS', events: [{ id: 'paid' }] }
  }

  const { body: created } = await api.call('POST', '~/experiments', body)

  t.match(created, { ...body, end_date: '2026-02-01T00:00:00.000Z' })
  t.match(created.feature_flag, { active: true })
})

t.test('shapes the flag by the parameters', async (t) => {
  const api = await shared.inNewProject()
  await api.sql`INSERT INTO group_types VALUES (${api.projectId}, 'company', 1)`
  const variants = [
    { key: 'control', rollout_percentage: 34 }, { key: 'a', rollout_percentage: 33 }, { key: 'b', rollout_percentage: 33 }
  ]

  const { body } = await api.call('POST', '~/experiments', {
    name: 'Shaped', feature_flag_key: 'shaped',
    parameters: {
      feature_flag_variants: variants, rollout_percentage: 20, aggregation_group_type_index: 1,
      ensure_experience_continuity: true
    }
  })

  t.same(body.feature_flag.filters, {
    groups: [{ properties: [], rollout_percentage: 20 }], multivariate: { variants }, aggregation_group_type_index: 1
  })
  t.equal(body.feature_flag.ensure_experience_continuity, true)
})

t.test('links a flag that is fit for an experiment, and refuses others', async (t) => {
  const api = await shared.inNewProject()
  const insert = async (key: string, variants: string[]): Promise<void> => {
    const shares = variants.map((name) => ({ key: name, rollout_percentage: 100 / variants.length }))
    const filters = { groups: [], multivariate: { variants: shares } }
    await api.sql`INSERT INTO feature_flags (project_id, key, filters) VALUES (${api.projectId}, ${key}, ${api.sql.json(filters)})`
  }
  await insert('fit', ['control', 'new'])
  await insert('single', ['control'])
  await insert('headless', ['a', 'b'])
  const create = async (key: string, parameters = {}): Promise<unknown> =>
    await api.call('POST', '~/experiments', { name: 'Linked', feature_flag_key: key, parameters })
  const others = [{ key: 'control', rollout_percentage: 50 }, { key: 'old', rollout_percentage: 50 }]

  t.match(await create('fit'), { status: 201, body: { feature_flag: { key: 'fit', name: '' } } })
  t.match(await create('fit', { feature_flag_variants: others }),
    { status: 400, body: { attr: 'parameters__feature_flag_variants' } })
  t.match(await create('single'), { status: 400, body: { type: 'validation_error', detail: 'Feature flag must have at least 2 variants (control and at least one test variant)', attr: 'feature_flag_key' } })
  t.match(await create('headless'), { status: 400, body: { detail: "Feature flag must have a variant with key 'control'", attr: 'feature_flag_key' } })
  t.match(await create('not a key!'), { status: 400, body: { code: 'invalid_key', attr: 'feature_flag_key' } })
})

t.test('refuses variants in the words that clients know', async (t) => {
  const api = await shared.inNewProject()
  const create = async (variants: unknown): Promise<unknown> => {
    const answer = await api.call('POST', '~/experiments', {
      name: 'V', feature_flag_key: 'v', parameters: { feature_flag_variants: variants }
    })
    t.match(answer, { status: 400, body: { type: 'validation_error' } })
    return answer.body
  }
  const eleven = ['control', ...'abcdefghij'].map((key) => ({ key, rollout_percentage: 9 }))

  t.match(await create(eleven), { detail: 'Feature flag variants must be less than 11', attr: 'parameters__feature_flag_variants' })
  t.match(await create([{ key: 'a', rollout_percentage: 50 }, { key: 'b', rollout_percentage: 50 }]), { detail: 'Feature flag variants must contain a control variant' })
  t.match(await create([{ key: 'control', rollout_percentage: 100 }]), { detail: 'Feature flag must have at least 2 variants (control and at least one test variant)' })
  t.match(await create([{ key: 'control', rollout_percentage: 50 }, { key: 'b', rollout_percentage: 20 }]), { detail: /must sum to 100/ })
  t.match(await create([{ key: 'control', rollout_percentage: 50 }, { key: 'control', rollout_percentage: 50 }]), { detail: /different keys/ })
  t.match(await create([{ key: 'control', rollout_percentage: '50' }]), { attr: 'parameters__feature_flag_variants__0__rollout_percentage' })
  t.match(await create('control'), { attr: 'parameters__feature_flag_variants' })
})

t.test('refuses parameters that would be ignored, and keeps those that are nobody\'s', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'P', feature_flag_key: 'parameters' })
  const refused: Record<string, unknown[]> = {
    minimum_detectable_effect: ['5', 0, -20, true, [5], {}],
    excluded_variants: ['test', true, 0, {}],
    custom_exposure_filter: ['x', 1, []],
    exposure_criteria: ['x', [1]],
    stats_config: ['bayesian', []],
    recommended_sample_size: ['1000', 0, -1, 0.5, false],
    rollout_percentage: ['50', -1, 101, []],
    aggregation_group_type_index: ['0', -1, 0.5, 2 ** 53],
    ensure_experience_continuity: ['true', 1, 0]
  }
  for (const [name, values] of Object.entries(refused)) {
    for (const value of values) {
      const parameters = { [name]: value }
      const error = { status: 400, body: { type: 'validation_error', attr: `parameters__${name}`, detail: new RegExp(`^${name} must be `) } }
      t.match(await api.call('POST', '~/experiments', { name: 'Q', feature_flag_key: 'new', parameters }), error, `${name}: ${JSON.stringify(value)}`)
      t.match(await api.call('PATCH', `~/experiments/${id}`, { parameters }), error)
    }
  }
  const named: [object, string][] = [
    [{ exposure_criteria: { filterTestAccounts: true } }, 'exposure_criteria__filterTestAccounts'],
    [{ exposure_criteria: { multiple_variant_handling: 'last_seen' } }, 'exposure_criteria__multiple_variant_handling'],
    [{ exposure_criteria: { exposure_config: { kind: 'ActionsNode', id: 3 } } }, 'exposure_criteria__exposure_config__event'],
    [{ exposure_criteria: { exposure_config: { event: '' } } }, 'exposure_criteria__exposure_config__event'],
    [{ exposure_criteria: { exposure_config: { event: 'a', properties: [{ key: 'b', operator: 'like' }] } } }, 'exposure_criteria__exposure_config__properties__0__operator'],
    [{ exposure_criteria: { exposure_config: { event: 'a' } }, custom_exposure_filter: { events: [{ id: 'b' }] } }, 'custom_exposure_filter'],
    [{ exposure_criteria: { activation: 1 } }, 'exposure_criteria__activation'],
    [{ stats_config: { baseline_variant_key: 3 } }, 'stats_config__baseline_variant_key'],
    [{ stats_config: { method: 'guess' } }, 'stats_config__method'],
    [{ stats_config: { cuped: { enabled: 'yes' } } }, 'stats_config__cuped__enabled'],
    [{ stats_config: { cuped: { enabled: true, lookback_days: 0 } } }, 'stats_config__cuped__lookback_days'],
    [{ stats_config: { cuped: { lookback: 7 } } }, 'stats_config__cuped__lookback'],
    [{ custom_exposure_filter: { events: [{ id: null }] } }, 'custom_exposure_filter__events__0__id'],
    [{ custom_exposure_filter: { events: [] } }, 'custom_exposure_filter__events'],
    [{ custom_exposure_filter: { events: [{ id: 'a' }, { id: 'b' }] } }, 'custom_exposure_filter__events'],
    [{ custom_exposure_filter: { events: [{ id: 'a' }], actions: [{ id: 1 }] } }, 'custom_exposure_filter__actions'],
    [{ custom_exposure_filter: { events: [{ id: 'a' }], filter_test_accounts: true } }, 'custom_exposure_filter__filter_test_accounts'],
    [{ excluded_variants: ['a', 1] }, 'excluded_variants__1'], [{ excluded_variants: [''] }, 'excluded_variants__0']
  ]
  for (const [parameters, attr] of named) {
    t.match(await api.call('PATCH', `~/experiments/${id}`, { parameters }), { status: 400, body: { attr: `parameters__${attr}` } }, attr)
  }
  const settings = {
    excluded_variants: ['c'], exposure_criteria: { exposure_config: { event: 'opened', properties: [{ key: 'plan', value: 'pro' }] }, multiple_variant_handling: 'first_seen' },
    stats_config: { method: 'frequentist', baseline_variant_key: 'test', cuped: { enabled: true, lookback_days: 30 } }
  }
  t.match(await api.call('PATCH', `~/experiments/${id}`, { parameters: settings }), { status: 200, body: { parameters: settings } })
  const kept = {
    minimum_detectable_effect: 0.5, recommended_sample_size: 1000, rollout_percentage: null, ensure_experience_continuity: null, recommended_running_time: '14', anything: ['0'], excluded_variants: [], custom_exposure_filter: {}
  }
  t.match(await api.call('PATCH', `~/experiments/${id}`, { parameters: kept }), { status: 200, body: { parameters: kept } })
  t.match(await api.call('PATCH', `~/experiments/${id}`, { parameters: null }), { status: 200, body: { parameters: {} } })
})

t.test('refuses what makes no sense, naming the field', async (t) => {
  const api = await shared.inNewProject()
  const cases: [object, object][] = [
    [{ feature_flag_key: 'k' }, { code: 'required', attr: 'name' }],
    [{ name: 'n' }, { code: 'required', attr: 'feature_flag_key' }],
    [{ name: 'n', feature_flag_key: 'k', colour: 'red' }, { code: 'unknown_field', attr: 'colour' }],
    [{ name: 'n'.repeat(401), feature_flag_key: 'k' }, { attr: 'name' }],
    [{ name: 7, feature_flag_key: 'k' }, { attr: 'name' }],
    [{ name: 'n', feature_flag_key: 'k', description: 'd'.repeat(3001) }, { attr: 'description' }],
    [{ name: 'n', feature_flag_key: 'k', start_date: 'yesterday' }, { attr: 'start_date' }],
    [{ name: 'n', feature_flag_key: 'k', start_date: '2026-02-30' }, { attr: 'start_date' }],
    [{ name: 'n', feature_flag_key: 'k', start_date: '2026-01-02', end_date: '2026-01-01' }, { attr: 'end_date', detail: 'End date must be after start date' }],
    [{ name: 'n', feature_flag_key: 'k', archived: 'no' }, { attr: 'archived' }],
    [{ name: 'n', feature_flag_key: 'k', filters: [] }, { attr: 'filters' }],
    [{ name: 'n', feature_flag_key: 'k', filters: { properties: [{ key: 'a' }] } }, { attr: 'filters', detail: 'Experiments do not support global filter properties' }],
    [{ name: 'nul \0', feature_flag_key: 'k' }, { attr: 'name' }],
    [{ name: 'n', feature_flag_key: 'k', filters: { a: { b: 'broken \ud800' } } }, { attr: 'filters__a__b' }]
  ]

  for (const [body, error] of cases) {
    const answer = await api.call('POST', '~/experiments', body)
    t.match(answer, { status: 400, body: { type: 'validation_error', ...error } }, JSON.stringify(body).slice(0, 80))
  }
  t.match(await api.call('POST', '~/experiments', []), { status: 400, body: { attr: 'body' } })
  t.match(await api.call('GET', '~/experiments'), { body: { count: 0 } })
})

t.test('follows the launch with the flag, and refuses to change what then must stay', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'Launch', feature_flag_key: 'launch' })
  const patch = async (body: object): Promise<any> => await api.call('PATCH', `~/experiments/${id}/`, body)
  const variants = [{ key: 'control', rollout_percentage: 20 }, { key: 'test', rollout_percentage: 80 }]

  t.match(await patch({ parameters: { feature_flag_variants: variants } }),
    { status: 200, body: { feature_flag: { active: false, filters: { multivariate: { variants } } } } })
  t.match(await patch({ start_date: '2026-01-01T00:00:00Z' }),
    { status: 200, body: { feature_flag: { active: true } } })
  t.match(await patch({ parameters: { feature_flag_variants: variants, more: 1 } }),
    { status: 200, body: { parameters: { more: 1 } } })
  t.match(await patch({ parameters: { feature_flag_variants: [...variants].reverse() } }),
    { status: 400, body: { detail: "Can't update feature_flag_variants on Experiment" } })
  t.match(await patch({ feature_flag_key: 'other' }),
    { status: 400, body: { detail: "Can't update feature_flag_key on Experiment", attr: 'feature_flag_key' } })
  t.match(await patch({ feature_flag_key: 'launch', name: 'Same key' }), { status: 200, body: { name: 'Same key' } })
  t.match(await patch({ end_date: '2025-12-31' }),
    { status: 400, body: { attr: 'end_date', detail: 'End date must be after start date' } })
  t.match(await patch({ end_date: '2026-02-01' }),
    { status: 200, body: { end_date: '2026-02-01T00:00:00.000Z', feature_flag: { active: true } } })
  t.match(await patch({ archived: true }), { status: 200, body: { archived: true } })
  t.match(await patch({ end_date: null, start_date: null }),
    { status: 200, body: { start_date: null, feature_flag: { active: false } } })
})

t.test('moves a draft to another flag', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'Move', feature_flag_key: 'first' })

  const moved = await api.call('PATCH', `~/experiments/${id}`, { feature_flag_key: 'second' })

  t.match(moved, { status: 200, body: { feature_flag_key: 'second', feature_flag: { key: 'second' } } })
})

t.test('checks the flag as if it were written by itself, and names the field of the experiment', async (t) => {
  const api = await shared.inNewProject()
  const create = async (parameters: object): Promise<unknown> =>
    await api.call('POST', '~/experiments', { name: 'Checked', feature_flag_key: 'checked', parameters })
  const thirds = ['control', 'a', 'b'].map((key) => ({ key, rollout_percentage: 33.33 }))

  t.match(await create({ aggregation_group_type_index: 4 }), { status: 400, body: { attr: 'parameters__aggregation_group_type_index' } })
  t.match(await create({ feature_flag_variants: thirds }), { status: 400, body: { attr: 'parameters__feature_flag_variants' } })
  t.match(await api.call('POST', '~/experiments', { name: 'Long', feature_flag_key: 'k'.repeat(401) }), { status: 400, body: { attr: 'feature_flag_key' } })
  t.match(await api.call('GET', '~/feature_flags'), { body: { count: 0 } })

  const { body: { id, feature_flag: flag } } = await api.call('POST', '~/experiments', { name: 'Kept', feature_flag_key: 'kept' })
  const filters = { ...flag.filters, payloads: { test: '1' }, groups: [{ properties: [], rollout_percentage: 100, variant: 'test' }] }
  t.match(await api.call('PATCH', `~/feature_flags/${flag.id}`, { filters }), { status: 200 })
  const variants = ['control', 'other'].map((key) => ({ key, rollout_percentage: 50 }))
  t.match(await api.call('PATCH', `~/experiments/${id}`, { parameters: { feature_flag_variants: variants } }),
    { status: 400, body: { attr: 'feature_flag__filters__groups__0__variant', detail: 'There is no variant "test".' } })
  t.match(await api.call('GET', `~/feature_flags/${flag.id}`), { body: { filters, version: 2 } })
})

t.test('does not launch with a flag that was deleted, but takes another one', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id, feature_flag: flag } } = await api.call('POST', '~/experiments', { name: 'Gone', feature_flag_key: 'gone' })
  await api.call('DELETE', `~/feature_flags/${flag.id}`)
  const patch = async (body: object): Promise<unknown> => await api.call('PATCH', `~/experiments/${id}`, body)

  t.match(await patch({ start_date: '2026-01-01' }), { status: 400, body: { code: 'flag_deleted', attr: 'feature_flag_key' } })
  t.match(await patch({ name: 'Still mine' }), { status: 200, body: { name: 'Still mine', feature_flag: { deleted: true } } })
  t.match(await patch({ feature_flag_key: 'fresh' }), { status: 200, body: { feature_flag: { key: 'fresh', active: false } } })
  t.match(await patch({ start_date: '2026-01-01' }), { status: 200, body: { feature_flag: { active: true } } })
})

t.test('names all fields that a PATCH cannot write', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'P', feature_flag_key: 'p' })

  const answer = await api.call('PATCH', `~/experiments/${id}`, { name: 'Q', id: 5, colour: 'red' })

  t.match(answer, { status: 400, body: { detail: "Can't update keys: colour, id on Experiment", code: 'unknown_field' } })
  t.match((await api.call('GET', `~/experiments/${id}`)).body, { name: 'P' })
})

t.test('loses nothing when many change an experiment at once', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'Busy', feature_flag_key: 'busy' })
  const changes = [
    { name: 'Renamed' }, { description: 'Described' }, { parameters: { a: 1 } }, { filters: { b: 2 } },
    { secondary_metrics: [{ c: 3 }] }, { archived: true }, { start_date: '2026-01-01T00:00:00.000Z' },
    { end_date: '2030-01-01T00:00:00.000Z' }
  ]

  const answers = await Promise.all(changes.map(async (change) => await api.call('PATCH', `~/experiments/${id}`, change)))

  t.same(answers.map(({ status }) => status), changes.map(() => 200))
  t.match((await api.call('GET', `~/experiments/${id}`)).body, Object.assign({}, ...changes))
})

t.test('makes one flag when two experiments ask for the same new key at once', async (t) => {
  const api = await shared.inNewProject()
  const names = ['1', '2', '3', '4']

  const answers = await Promise.all(names.map(async (name) =>
    await api.call('POST', '~/experiments', { name, feature_flag_key: 'same' })))

  t.same(answers.map(({ status }) => status), [201, 201, 201, 201])
  t.equal(new Set(answers.map(({ body }) => body.feature_flag.id)).size, 1)
})

t.test('forgets a deleted experiment and keeps its flag', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'Gone', feature_flag_key: 'gone' })

  t.match(await api.call('DELETE', `~/experiments/${id}/`), { status: 204, body: undefined })

  t.match(await api.call('GET', `~/experiments/${id}`), { status: 404, body: { code: 'not_found' } })
  t.match(await api.call('DELETE', `~/experiments/${id}`), { status: 404 })
  t.match(await api.call('PATCH', `~/experiments/${id}`, {}), { status: 404 })
  t.match((await api.call('GET', '~/experiments')).body, { count: 0, results: [] })
  t.match(await api.sql`SELECT deleted FROM feature_flags WHERE project_id = ${api.projectId}`, [{ deleted: false }])
})

t.test('tells nothing about experiments of another project', async (t) => {
  const api = await shared.inNewProject()
  const other = await createProject(api.sql, { name: 'Other' })
  await api.keys.refresh()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'Mine', feature_flag_key: 'mine' })

  for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
    const body = method === 'PATCH' ? { name: 'Stolen' } : undefined
    const answer = await api.call(method, `/api/projects/${other.id}/experiments/${id}`, body)
    t.match(answer, { status: 404, body: { code: 'not_found' } })
  }
  t.match(await api.call('GET', '~/experiments/99999999999'), { status: 404 })
  t.match(await api.call('GET', '~/experiments/abc'), { status: 400, body: { attr: 'id' } })
})

t.test('lists newest first, by archived and by words of the name', async (t) => {
  const api = await shared.inNewProject()
  for (const [index, name] of ['Blue button', 'Red button', 'Blue 100%_page'].entries()) {
    await api.call('POST', '~/experiments', { name, feature_flag_key: `f${index}`, archived: index === 1 })
  }
  const names = async (query: string): Promise<string[]> =>
    (await api.call('GET', `~/experiments?${query}`)).body.results.map((item: { name: string }) => item.name)

  t.same(await names(''), ['Blue 100%_page', 'Red button', 'Blue button'])
  t.same(await names('archived=false'), ['Blue 100%_page', 'Blue button'])
  t.same(await names('archived=true'), ['Red button'])
  t.same(await names('search=BUTTON+blue'), ['Blue button'])
  t.same(await names('search=%25_'), ['Blue 100%_page'])
})
