import t from 'tap'
import { createTestApi, type TestAnswer, type TestApi } from '../testing/create-test-api.ts'

const shared = await createTestApi(t)

const VARIANTS = [{ key: 'control', rollout_percentage: 34 }, { key: 'a', rollout_percentage: 33 }, { key: 'b', rollout_percentage: 33 }]

interface Pair {
  api: TestApi
  /** Paths below the project, of two experiments on one flag and of the flag. */
  first: string
  second: string
  flag: string
  isOn: () => Promise<boolean>
}

/** Two experiments on one flag, both running. */
async function startTwo (): Promise<Pair> {
  const api = await shared.inNewProject()
  const body = { name: 'First', feature_flag_key: 'shared', start_date: '2026-01-01' }
  const { body: first } = await api.call('POST', '~/experiments', body)
  const { body: second } = await api.call('POST', '~/experiments', { ...body, name: 'Second' })
  const flag = `~/feature_flags/${first.feature_flag.id}`
  return {
    api,
    first: `~/experiments/${first.id}`,
    second: `~/experiments/${second.id}`,
    flag,
    isOn: async () => (await api.call('GET', flag)).body.active
  }
}

t.test('what happens to one experiment does not switch off the flag that another runs on', async (t) => {
  for (const [name, act] of Object.entries<(pair: Pair) => Promise<TestAnswer>>({
    end: async ({ api, first }) => await api.call('PATCH', first, { end_date: '2026-02-01' }),
    reset: async ({ api, first }) => await api.call('PATCH', first, { start_date: null }),
    'end and reset': async ({ api, first }) => {
      await api.call('PATCH', first, { end_date: '2026-02-01' })
      return await api.call('PATCH', first, { start_date: null, end_date: null })
    },
    archive: async ({ api, first }) => await api.call('PATCH', first, { archived: true }),
    delete: async ({ api, first }) => await api.call('DELETE', first)
  })) {
    const pair = await startTwo()

    t.match(await act(pair), { status: /^20[04]$/ }, name)

    t.equal(await pair.isOn(), true, name)
    await pair.api.call('PATCH', pair.second, { start_date: null })
    t.equal(await pair.isOn(), name !== 'reset' && name !== 'end and reset' && name !== 'end' && name !== 'delete', `${name}, and the other one too`)
  }
})

t.test('a flag keeps key, variants and existence while an experiment runs on it', async (t) => {
  const { api, first, second, flag, isOn } = await startTwo()
  const variants = { groups: [{}], multivariate: { variants: VARIANTS } }
  const breaking: Array<[object, string]> = [
    [{ deleted: true }, 'deleted'], [{ key: 'other' }, 'key'], [{ filters: variants }, 'filters__multivariate__variants'],
    [{ filters: { groups: [{}] } }, 'filters__multivariate__variants'], [{ active: false, deleted: true }, 'deleted']
  ]
  await api.call('PATCH', first, { end_date: '2026-02-01' })

  for (const [change, attr] of breaking) {
    t.match(await api.call('PATCH', flag, change), { status: 400, body: { code: 'flag_in_use', attr, detail: /"Second"/ } }, attr)
  }
  t.match(await api.call('DELETE', flag), { status: 400, body: { code: 'flag_in_use', attr: 'deleted' } })
  const { body: { filters } } = await api.call('GET', flag)
  t.match(await api.call('PATCH', flag, { filters: { ...filters, groups: [{ properties: [], rollout_percentage: 10 }] } }), { status: 200 }, 'who gets it may change')
  t.match(await api.call('PATCH', flag, { active: false }), { status: 200 }, 'and it can be stopped')
  t.equal(await isOn(), false)

  await api.call('PATCH', second, { end_date: '2026-02-01' })
  t.match(await api.call('PATCH', flag, { filters: variants }), { status: 200 }, 'nothing runs any more')
})

t.test('a draft does not change the variants under an experiment that runs', async (t) => {
  const { api, first, second } = await startTwo()
  await api.call('PATCH', first, { start_date: null })
  const change = { parameters: { feature_flag_variants: VARIANTS } }

  t.match(await api.call('PATCH', first, change), {
    status: 400, body: { code: 'flag_in_use', attr: 'parameters__feature_flag_variants', detail: /"Second"/ }
  })
  await api.call('DELETE', second)
  t.match(await api.call('PATCH', first, change), { status: 200, body: { feature_flag: { filters: { multivariate: { variants: VARIANTS } } } } })
})

t.test('an experiment that goes on after its end finds its flag on, or is refused', async (t) => {
  const { api, first, second, flag, isOn } = await startTwo()
  for (const path of [first, second]) await api.call('PATCH', path, { end_date: '2026-02-01' })
  await api.call('PATCH', flag, { active: false })

  t.match(await api.call('PATCH', first, { end_date: null }), { status: 200 })
  t.equal(await isOn(), true)

  await api.call('PATCH', first, { end_date: '2026-02-01' })
  await api.call('PATCH', flag, { filters: { groups: [{}] } })
  t.match(await api.call('PATCH', first, { end_date: null }), { status: 400, body: { code: 'flag_changed', attr: 'feature_flag_key' } }, 'it lost its variants')
  await api.call('DELETE', flag)
  t.match(await api.call('PATCH', first, { end_date: '2999-01-01' }), { status: 400, body: { code: 'flag_deleted' } })
})

t.test('everybody at once leaves every running experiment a flag that is on, with its variants', async (t) => {
  const { api, first, second, flag } = await startTwo()
  const key = { feature_flag_key: 'shared' }
  const { body: third } = await api.call('POST', '~/experiments', { name: 'Third', ...key })
  const experiments = [first, second, `~/experiments/${third.id}`]
  const changes = [
    { start_date: null, end_date: null }, { start_date: '2026-01-01', end_date: null }, { end_date: '2026-02-01' }, { end_date: null },
    { archived: true }, { parameters: { feature_flag_variants: VARIANTS } }, { name: 'n' }
  ]
  const edits = [
    { name: 'n' }, { filters: { groups: [{ rollout_percentage: 5 }], multivariate: { variants: VARIANTS } } }, { filters: { groups: [] } }, { key: 'renamed' }, { key: 'shared' }
  ]
  const statuses = new Set<number>()

  for (let round = 0; round < 12; round++) {
    const work = experiments.flatMap((path, i) => [0, 1].map(async (j) => await api.call('PATCH', path, changes[(round * 5 + i * 3 + j) % changes.length])))
    work.push(...[0, 1].map(async (j) => await api.call('PATCH', flag, edits[(round + j * 2) % edits.length])))
    if (round % 4 === 3) work.push(api.call('DELETE', flag), api.call('DELETE', second))
    for (const { status } of await Promise.all(work)) statuses.add(status)

    const broken = await api.sql`
      SELECT e.id, f.active, f.deleted, f.key, f.filters FROM experiments e JOIN feature_flags f ON f.id = e.feature_flag_id
      WHERE e.project_id = ${api.projectId} AND NOT e.deleted AND e.start_date IS NOT NULL AND e.end_date IS NULL
        AND (f.deleted OR NOT f.active OR jsonb_path_query_array(f.filters, '$.multivariate.variants[*].key') @> '"control"' IS NOT TRUE)`
    t.same([...broken], [], `round ${round}`)
  }
  t.same([...statuses].filter((status) => status >= 500), [])
  t.ok(statuses.has(200) && statuses.has(400), 'some were taken, some refused')
})

t.test('of two who delete an experiment at once, one did it', async (t) => {
  const { api, first } = await startTwo()

  const answers = await Promise.all(Array.from({ length: 6 }, async () => await api.call('DELETE', first)))

  t.same(answers.map(({ status }) => status).sort(), [204, 404, 404, 404, 404, 404])
  t.match(await api.call('DELETE', '~/experiments/99999999999'), { status: 404 })
})
