import t from 'tap'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'

const shared = await createTestApi(t)

const HALVES = ['control', 'test'].map((key) => ({ key, rollout_percentage: 50 }))
const OTHERS = [{ key: 'control', rollout_percentage: 90 }, { key: 'new', rollout_percentage: 10 }]

interface Version {
  version: number
  key: string
  active: boolean
  rollout: number
  variants: string[]
  parameters: object
  filters: object
}

async function versionsOf (api: TestApi, id: number): Promise<Version[]> {
  return await api.sql<Version[]>`
    SELECT version, flag ->> 'key' AS key, (flag -> 'active')::boolean AS active, (flag #> '{filters,groups,0,rollout_percentage}')::integer AS rollout,
      jsonb_path_query_array(flag, '$.filters.multivariate.variants[*].key') AS variants, parameters, filters
    FROM experiment_versions WHERE experiment_id = ${id} ORDER BY version`
}

t.test('keeps what is measured at the launch, and with each change until the end', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id, feature_flag: flag } } = await api.call('POST', '~/experiments', { name: 'Kept', feature_flag_key: 'kept' })
  const patch = async (body: object): Promise<unknown> => await api.call('PATCH', `~/experiments/${id}`, body)
  const patchFlag = async (body: object): Promise<unknown> => await api.call('PATCH', `~/feature_flags/${flag.id}`, body)
  const withRollout = (percentage: number, variants = HALVES): object =>
    ({ filters: { groups: [{ properties: [], rollout_percentage: percentage }], multivariate: { variants } } })
  t.same(await versionsOf(api, id), [], 'nothing of a draft')

  await patch({ start_date: '2026-01-01' })
  await patchFlag(withRollout(20))
  await patchFlag({ name: 'What it is called says nothing' })
  await patch({ filters: { events: [{ id: 'paid' }] } })
  await patchFlag({ active: false })
  await patch({ name: 'Renamed' })
  await patch({ end_date: '2026-02-01' })
  t.match(await patchFlag({ key: 'another', ...withRollout(100, OTHERS) }), { status: 200 })
  await patch({ parameters: { minimum_detectable_effect: 7, feature_flag_variants: HALVES } })

  const variants = ['control', 'test']
  t.match(await versionsOf(api, id), [
    { version: 1, key: 'kept', active: true, rollout: 100, variants, filters: {} },
    { version: 2, active: true, rollout: 20, variants },
    { version: 3, rollout: 20, filters: { events: [{ id: 'paid' }] } },
    { version: 4, active: false, rollout: 20 },
    { version: 5, key: 'kept', active: false, rollout: 20, variants, parameters: { minimum_detectable_effect: 7 } }
  ])
  t.match(await patch({ end_date: null }), { status: 400, body: { code: 'flag_changed', attr: 'feature_flag_key' } })
  t.match(await patchFlag({ key: 'kept', ...withRollout(5) }), { status: 200 })
  t.match(await patch({ end_date: null }), { status: 200, body: { feature_flag: { active: true } } }, 'with the same variants, it goes on')
  t.match((await versionsOf(api, id)).at(-1), { version: 6, key: 'kept', active: true, rollout: 5, variants })
  await patch({ start_date: null })
  t.same(await versionsOf(api, id), [], 'a draft again')
})

t.test('an experiment may be launched when it is created, also by its whole past', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'Past', feature_flag_key: 'past', start_date: '2026-01-01', end_date: '2026-02-01' })

  t.match(await versionsOf(api, id), [{ version: 1, key: 'past', variants: ['control', 'test'] }])
})

t.test('who is counted does not change while an experiment runs', async (t) => {
  const api = await shared.inNewProject()
  await api.sql`INSERT INTO group_types VALUES (${api.projectId}, 'company', 0)`
  const { body: { feature_flag: flag } } = await api.call('POST', '~/experiments', { name: 'Groups', feature_flag_key: 'groups', start_date: '2026-01-01' })

  t.match(await api.call('PATCH', `~/feature_flags/${flag.id}`, { filters: { ...flag.filters, aggregation_group_type_index: 0 } }),
    { status: 400, body: { code: 'flag_in_use', attr: 'filters__aggregation_group_type_index' } })
  t.match(await api.call('PATCH', `~/feature_flags/${flag.id}`, { filters: { ...flag.filters, aggregation_group_type_index: null } }), { status: 200 })
})

t.test('of an experiment whose flag is changed without end, the launch and the newest 500 versions stay', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id, feature_flag: flag } } = await api.call('POST', '~/experiments', { name: 'Long', feature_flag_key: 'long', start_date: '2026-01-01' })
  await api.sql`
    INSERT INTO experiment_versions (experiment_id, version, flag, parameters, filters, secondary_metrics)
    SELECT ${id}, version, jsonb_build_object('key', version::text), '{}', '{}', '{}' FROM generate_series(2, 700) AS version`

  await api.call('PATCH', `~/feature_flags/${flag.id}`, { active: false })

  const versions = await versionsOf(api, id)
  t.equal(versions.length, 501)
  t.match([versions[0], versions[1], versions.at(-1)], [{ version: 1, key: 'long' }, { version: 202 }, { version: 701, key: 'long', active: false }])
})
