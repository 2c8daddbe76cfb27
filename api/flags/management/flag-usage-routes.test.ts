import t from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createTestApi, type TestApi } from '../../testing/create-test-api.ts'
import { findOnlyValue, judgeFlag } from './flag-usage-routes.ts'

const NOW = Date.parse('2026-03-31T12:00:00Z')
const SOME = { groups: [{ properties: [{ key: 'plan', type: 'person', operator: 'exact', value: 'pro' }] }] }

const { client } = await createTestClickHouse(t)
const shared = await createTestApi(t, { clickhouse: client, now: () => NOW })

async function plantFlag (api: TestApi, key: string, columns: object = {}): Promise<number> {
  const row = { project_id: api.projectId, key, filters: SOME, updated_at: '2026-01-01T00:00:00Z', ...columns }
  const [inserted] = await api.sql<Array<{ id: number }>>`INSERT INTO feature_flags ${api.sql({ ...row, filters: JSON.stringify(row.filters) })} RETURNING id`
  return inserted!.id
}

async function plantCalls (projectId: number, flag: string, timestamps: string[], event = '$feature_flag_called'): Promise<void> {
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: timestamps.map((timestamp) => ({
      project_id: projectId, uuid: crypto.randomUUID(), event, distinct_id: 'ann', timestamp: `${timestamp}.000`, received_at: `${timestamp}.000`, feature_flag: flag
    }))
  })
}

t.test('says when each flag was last called, and which are stale', async (t) => {
  const api = await shared.inNewProject()
  const [called, forgotten, fresh, whole, other] = [
    await plantFlag(api, 'called'), await plantFlag(api, 'forgotten'), await plantFlag(api, 'fresh', { updated_at: '2026-03-30T00:00:00Z' }),
    await plantFlag(api, 'whole', { filters: { groups: [{}] } }), await plantFlag(await shared.inNewProject(), 'called')
  ]
  await plantCalls(api.projectId, 'called', ['2026-03-02 10:00:00', '2026-03-30 08:00:00', '2026-03-30 07:00:00', '2026-04-05 00:00:00'])
  await plantCalls(api.projectId, 'forgotten', ['2026-02-28 10:00:00'])
  await plantCalls(api.projectId, 'forgotten', ['2026-03-20 10:00:00'], 'paid')
  await plantCalls(api.projectId + 1000, 'forgotten', ['2026-03-20 10:00:00'])

  const { status, body } = await api.call('GET', `~/feature_flags/usage/?ids=${[called, forgotten, fresh, whole, other].join()}`)

  t.equal(status, 200)
  t.match(body, { from: '2026-03-01T12:00:00.000Z', is_reported: true })
  t.same(body.results, [
    { id: whole, last_called_at: null, calls: 0, status: 'stale', reason: 'on for everyone for 89 days' },
    { id: fresh, last_called_at: null, calls: 0, status: 'active', reason: '' },
    { id: forgotten, last_called_at: null, calls: 0, status: 'stale', reason: 'not called for 30 days, unchanged for 89' },
    { id: called, last_called_at: '2026-03-30T08:00:00.000Z', calls: 3, status: 'active', reason: '' }
  ], 'not the flag of another project')
})

t.test('lists only what is stale, a page at a time, also by a search', async (t) => {
  const api = await shared.inNewProject()
  await plantFlag(api, 'called')
  const forgotten = await plantFlag(api, 'forgotten one')
  await plantFlag(api, 'fresh', { updated_at: '2026-03-30T00:00:00Z' })
  const off = await plantFlag(api, 'off', { active: false })
  await plantFlag(api, 'gone', { deleted: true })
  await plantCalls(api.projectId, 'called', ['2026-03-20 10:00:00'])
  const list = async (query: string): Promise<any> => (await api.call('GET', `~/feature_flags/?${query}`)).body

  t.match(await list('active=STALE'), { count: 2, results: [{ id: off }, { id: forgotten }] })
  t.match(await list('active=STALE&limit=1'), { count: 2, next: /active=STALE/, results: [{ id: off }] })
  t.match(await list('active=STALE&search=forgotten'), { count: 1, results: [{ id: forgotten }] })
  t.match(await list('active=false'), { count: 1, results: [{ id: off }] })
  t.equal((await list('active=true')).count, 3)
  t.equal((await list('')).count, 4)
  t.match((await api.call('GET', '~/feature_flags/?active=stale')).body, { code: 'invalid_input', attr: 'active' })
})

t.test('without any report of a call, their absence says nothing', async (t) => {
  const api = await shared.inNewProject()
  const id = await plantFlag(api, 'f')

  t.match((await api.call('GET', `~/feature_flags/usage?ids=${id}`)).body, {
    is_reported: false, results: [{ last_called_at: null, status: 'active' }]
  })
  await plantCalls(api.projectId, 'another', ['2026-03-30 10:00:00'])
  t.match((await api.call('GET', `~/feature_flags/usage?ids=${id}`)).body, { is_reported: true, results: [{ status: 'stale' }] })
})

t.test('a flag that another one asks for is not stale for want of calls', async (t) => {
  const api = await shared.inNewProject()
  const [base, byId] = [await plantFlag(api, 'base'), await plantFlag(api, 'by-id')]
  const on = (key: string): object => ({ groups: [{ properties: [{ key, type: 'flag', operator: 'flag_evaluates_to', value: true }] }] })
  await plantFlag(api, 'top', { filters: on('base') })
  await plantFlag(api, 'other-top', { filters: on(String(byId)) })
  await plantFlag(api, 'malformed', { filters: [1] })
  await plantCalls(api.projectId, 'top', ['2026-03-30 10:00:00'])

  const { body } = await api.call('GET', `~/feature_flags/usage?ids=${base},${byId}`)

  t.same(body.results.map(({ status }: { status: string }) => status), ['active', 'active'])
})

t.test('refuses what is no list of ids, and says that ClickHouse is unavailable', async (t) => {
  const api = await shared.inNewProject()
  for (const ids of ['x', '0', '1,-2', '99999999999', Array.from({ length: 101 }, (_, n) => n + 1).join()]) {
    t.match(await api.call('GET', `~/feature_flags/usage?ids=${ids}`), { status: 400, body: { code: 'invalid_input', attr: 'ids' } }, ids)
  }
  t.match(await api.call('GET', '~/feature_flags/usage'), { status: 200, body: { results: [] } })

  const without = await createTestApi(t)
  const id = await plantFlag(without, 'f')
  t.match(await without.call('GET', `~/feature_flags/usage?ids=${id}`), { status: 503, body: { code: 'clickhouse_unavailable' } })
})

const TODAY = Date.parse('2026-03-31T12:00:00Z')
const DAY_MS = 86_400_000
const PRO = { key: 'plan', type: 'person', operator: 'exact', value: 'pro' }
const variants = (...shares: number[]): object => ({ variants: shares.map((share, n) => ({ key: `v${n}`, rollout_percentage: share })) })

t.test('finds flags that have one value for everybody', async (t) => {
  const cases: Array<[unknown, string | null]> = [
    [{ groups: [] }, 'false'],
    [{ groups: [{}] }, 'true'],
    [{ groups: [{ rollout_percentage: 0 }, { properties: [PRO], rollout_percentage: 0 }] }, 'false'],
    [{ groups: [{ rollout_percentage: 99 }] }, null],
    [{ groups: [{ properties: [PRO] }] }, null],
    [{ groups: [{ properties: [PRO], rollout_percentage: 5 }, {}] }, 'true'],
    [{ groups: [{ properties: [PRO], rollout_percentage: 5 }, {}], early_exit: true }, null],
    [{ groups: [{}], multivariate: variants(50, 50) }, null],
    [{ groups: [{}], multivariate: variants(0, 100) }, 'v1'],
    [{ groups: [{ variant: 'v0' }], multivariate: variants(50, 50) }, 'v0'],
    [{ groups: [{ variant: 'gone' }], multivariate: variants(50, 50) }, null],
    [{ groups: [{ properties: [PRO], variant: 'v1' }, { variant: 'v0' }], multivariate: variants(50, 50) }, null],
    [{ groups: [{}], holdout: { id: 1, exclusion_percentage: 5 } }, null],
    [{ groups: [{}], feature_enrollment: true }, null],
    [{ groups: [{ aggregation_group_type_index: 0 }] }, 'true'],
    [[1], null]
  ]
  for (const [filters, value] of cases) {
    t.equal(findOnlyValue({ active: true, filters }), value, JSON.stringify(filters))
  }
  t.equal(findOnlyValue({ active: false, filters: [1] }), 'false')
})

t.test('a flag is stale after 30 days without a change, with one value or without a call', async (t) => {
  const judge = (days: number, fields: object, calls: number | null): unknown => {
    const updatedAt = new Date(TODAY - days * DAY_MS)
    const flag = { filters: { groups: [{ properties: [PRO] }] }, active: true, updated_at: updatedAt, ...fields }
    return judgeFlag(flag, calls === null ? null : { calls, lastMs: calls === 0 ? null : TODAY }, { now: TODAY })
  }
  const active = { status: 'active', reason: '' }
  const everyone = { filters: { groups: [{}] } }

  t.same(judge(30, {}, 0), { status: 'stale', reason: 'not called for 30 days, unchanged for 30' })
  t.same(judge(29.9, {}, 0), active)
  t.same(judge(400, {}, 1), active)
  t.same(judge(400, {}, null), active, 'nobody says whether it is called')
  t.same(judge(40, everyone, 1000), { status: 'stale', reason: 'on for everyone for 40 days' })
  t.same(judge(40, everyone, null), { status: 'stale', reason: 'on for everyone for 40 days' })
  t.same(judge(29, everyone, 1000), active)
  t.same(judge(31, { active: false }, 1000), { status: 'stale', reason: 'off for everyone for 31 days' })
  t.same(judge(31, { filters: { groups: [] } }, 1000), { status: 'stale', reason: 'false for everyone for 31 days' })
  t.same(judge(31, { filters: { groups: [{}], multivariate: variants(100) } }, 0), { status: 'stale', reason: 'v0 for everyone for 31 days' })
})
