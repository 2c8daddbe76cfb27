import t from 'tap'
import { createPersonalKey } from '../../projects/personal-keys.ts'
import { createTestApi, send, type TestAnswer } from '../../testing/create-test-api.ts'

const EVERYONE = { groups: [{ properties: [], rollout_percentage: 100 }] }
const HALF = { groups: [{ properties: [], rollout_percentage: 50 }] }

const shared = await createTestApi(t)

t.test('every change is kept with who made it, what was before and what after, newest first', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/feature_flags/', { key: 'f', filters: EVERYONE })
  const path = `~/feature_flags/${id}`
  await api.call('PATCH', path, { filters: HALF, name: 'Half' })
  await api.call('PATCH', path, { name: 'Half' })
  await api.call('DELETE', path)

  const { status, body } = await api.call('GET', `${path}/activity/`)

  t.equal(status, 200)
  t.match(body, { count: 3, next: null, previous: null })
  t.match(body.results, [
    {
      activity: 'deleted', version: 3, detail: { name: 'f', changes: [{ field: 'deleted', before: false, after: true }] },
      definition: { deleted: true }
    },
    {
      activity: 'updated', version: 2, item_id: String(id), scope: 'FeatureFlag', is_system: false, experiment: null,
      user: { email: 'ann@example.com' }, key_label: 'test', created_at: /^\d{4}-\d\d-\d\dT/,
      detail: {
        changes: [
          { type: 'FeatureFlag', action: 'changed', field: 'name', before: '', after: 'Half' },
          { type: 'FeatureFlag', action: 'changed', field: 'filters', before: EVERYONE, after: HALF }
        ]
      },
      definition: { key: 'f', name: 'Half', filters: HALF, active: true }
    },
    { activity: 'created', version: 1, detail: { name: 'f', changes: [] }, definition: { key: 'f', filters: EVERYONE } }
  ], 'a change without effect is not recorded')
  t.equal(body.results.length, 3)
})

t.test('the definition of a change puts that version back', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/feature_flags/', { key: 'f', filters: EVERYONE, evaluation_runtime: 'server' })
  await api.call('PATCH', `~/feature_flags/${id}`, { filters: HALF, active: false, evaluation_runtime: 'all' })
  const { body: { results } } = await api.call('GET', `~/feature_flags/${id}/activity`)

  t.match(await api.call('PATCH', `~/feature_flags/${id}`, results[1].definition), {
    status: 200, body: { version: 3, filters: EVERYONE, active: true, evaluation_runtime: 'server' }
  })
})

t.test('pages by a cursor, while changes are added', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/feature_flags/', { key: 'f' })
  const path = `~/feature_flags/${id}`
  for (const name of ['b', 'c', 'd', 'e']) await api.call('PATCH', path, { name })

  const first = await api.call('GET', `${path}/activity/?limit=2`)
  await api.call('PATCH', path, { name: 'f' })
  const next = new URL(first.body.next)
  const second = await api.call('GET', next.pathname + next.search)

  const versions = ({ body }: TestAnswer): number[] => body.results.map(({ version }: { version: number }) => version)
  t.same([first, second].map(versions), [[5, 4], [3, 2]])
  t.match(await api.call('GET', `${path}/activity/?limit=2&offset=5`), { body: { count: 6, next: null, results: [{ version: 1 }] } })
  t.match(await api.call('GET', `${path}/activity?limit=0`), { status: 400, body: { attr: 'limit' } })
  t.match(await api.call('GET', `${path}/activity?after=x`), { status: 400, body: { attr: 'after' } })
})

t.test('a flag of another project has no changes to see', async (t) => {
  const [api, other] = [await shared.inNewProject(), await shared.inNewProject()]
  const { body: { id } } = await api.call('POST', '~/feature_flags/', { key: 'f' })

  t.match(await other.call('GET', `~/feature_flags/${id}/activity`), { status: 404, body: { code: 'not_found' } })
  t.match(await other.call('GET', '~/feature_flags/99999/activity'), { status: 404 })
})

t.test('a refused change is not recorded', async (t) => {
  const api = await shared.inNewProject()
  await api.call('POST', '~/feature_flags/', { key: 'taken' })
  const { body: { id } } = await api.call('POST', '~/feature_flags/', { key: 'f' })

  t.match(await api.call('PATCH', `~/feature_flags/${id}`, { key: 'taken' }), { status: 400 })
  t.match(await api.call('PATCH', `~/feature_flags/${id}`, { name: 'n', filters: { groups: [{ rollout_percentage: 101 }] } }), { status: 400 })
  t.match(await api.call('GET', `~/feature_flags/${id}/activity`), { body: { count: 1 } })
})

t.test('what an experiment does to its flag names the experiment', async (t) => {
  const api = await shared.inNewProject()
  const { body: experiment } = await api.call('POST', '~/experiments/', { name: 'Short checkout', feature_flag_key: 'checkout' })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { start_date: '2026-01-01' })

  const { body } = await api.call('GET', `~/feature_flags/${experiment.feature_flag.id}/activity`)

  t.match(body.results, [
    { activity: 'updated', experiment: 'Short checkout', detail: { changes: [{ field: 'active', before: false, after: true }] } },
    { activity: 'created', experiment: 'Short checkout', user: { email: 'ann@example.com' } }
  ])
})

t.test('the oldest changes make room: 500 a flag, and 10 MB', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/feature_flags/', { key: 'f' })
  const plant = async (count: number, size: number): Promise<void> => {
    // Random text, because Postgres compresses.
    await api.sql`DELETE FROM feature_flag_changes WHERE flag_id = ${id}`
    await api.sql`
      INSERT INTO feature_flag_changes (flag_id, version, before, after)
      SELECT ${id}, -n, '{}', jsonb_build_object('name', (SELECT string_agg(md5(random()::text || m), '') FROM generate_series(1, ${size}::integer / 32) AS m))
      FROM generate_series(1, ${count}::integer) AS n`
  }
  const kept = async (): Promise<number> => (await api.call('GET', `~/feature_flags/${id}/activity?limit=1`)).body.count

  await plant(700, 32)
  await api.call('PATCH', `~/feature_flags/${id}`, { name: 'many' })
  t.equal(await kept(), 500)

  await plant(30, 1_000_000)
  await api.call('PATCH', `~/feature_flags/${id}`, { name: 'large' })
  const left = await kept()
  t.ok(left >= 5 && left <= 20, `${left} of 31 are left`)
  t.match((await api.call('GET', `~/feature_flags/${id}/activity?limit=1`)).body.results, [{ detail: { changes: [{ after: 'large' }] } }])
})

t.test('a change that is based on an older version is refused, and says who saved meanwhile', async (t) => {
  const api = await shared.inNewProject()
  const { key } = await createPersonalKey(api.sql, {
    email: api.user.email, label: 'deploy', scopes: ['feature_flag:write'], projectIds: [api.projectId], expiresAt: null
  })
  await api.keys.refresh()
  const { body: flag } = await api.call('POST', '~/feature_flags/', { key: 'f', filters: EVERYONE })
  const path = `~/feature_flags/${flag.id}`
  await send(api.app, {
    method: 'PATCH', url: `/api/projects/${api.projectId}/feature_flags/${flag.id}`, headers: { authorization: `Bearer ${key}` },
    payload: { filters: HALF, version: 1 }
  })

  const refused = await api.call('PATCH', path, { filters: { groups: [] }, version: 1 })

  t.match(refused, { status: 409, body: { type: 'invalid_request', code: 'conflict', attr: 'version', detail: /version 2, saved by ann@example\.com; .* version 1/ } })
  t.match((await api.call('GET', path)).body, { version: 2, filters: HALF })
  t.match(await api.call('PATCH', path, { deleted: true, version: 1 }), { status: 409 })
  t.match(await api.call('PATCH', path, { filters: HALF, version: 1 }), { status: 200, body: { version: 2 } }, 'nothing is undone, and nothing changes')
  t.match(await api.call('PATCH', path, { filters: EVERYONE, version: 2 }), { status: 200, body: { version: 3 } })
  t.match(await api.call('PATCH', path, { name: 'without a version' }), { status: 200, body: { version: 4 } })
  t.match(await api.call('PATCH', path, { name: 'n', version: 'one' }), { status: 400, body: { attr: 'version' } })
})

t.test('with the flag as it was, only a field that both changed is a conflict, and the rest of the others stays', async (t) => {
  const api = await shared.inNewProject()
  const { body: original } = await api.call('POST', '~/feature_flags/', { key: 'f', filters: EVERYONE })
  const change = async (fields: object): Promise<TestAnswer> => await api.call('PATCH', `~/feature_flags/${original.id}`, fields)
  await change({ filters: HALF })

  t.match(await change({ ...original, name: 'Mine', original_flag: original }), {
    status: 200, body: { name: 'Mine', filters: HALF, version: 3 }
  })
  t.match(await change({ ...original, filters: { groups: [] }, original_flag: original }), { status: 409, body: { code: 'conflict' } })
  t.match(await change({ ...original, name: 'Mine', original_flag: original }), { status: 200 }, 'both made the same change')
})

t.test('of two changes of one version at once one is stored', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/feature_flags/', { key: 'f' })

  const answers = await Promise.all(['a', 'b', 'c'].map(async (name) => await api.call('PATCH', `~/feature_flags/${id}`, { name, version: 1 })))

  t.same(answers.map(({ status }) => status).sort(), [200, 409, 409])
})
