/** Persons by their last event, and groups. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { personUuid } from '../../schema/wire/identity.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi } from '../testing/create-test-api.ts'

const NEWEST = Date.UTC(2026, 2, 10, 12)
const at = (hoursAgo: number): string => new Date(NEWEST - hoursAgo * 3_600_000).toISOString().replace('T', ' ').slice(0, 23)

async function startApi (t: Test) {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client })
  const { projectId: project } = api
  return {
    ...api,
    client,
    insert: async (table: string, rows: readonly object[]): Promise<void> => {
      await client.insert({ table, format: 'JSONEachRow', values: rows.map((row) => ({ project_id: project, ...row })) })
    },
    seen: (distinctId: string, hoursAgo: number): object => ({
      uuid: randomUUID(), event: 'paid', distinct_id: distinctId, properties: '{}', timestamp: at(hoursAgo), received_at: at(hoursAgo)
    })
  }
}

t.test('everybody with events, the last seen first: once after a merge, by name when there is one, page by page', async (t) => {
  const { insert, seen, call, sql, projectId } = await startApi(t)
  const device = personUuid(projectId, 'device')
  const ann = personUuid(projectId, 'ann')
  const strangers = Array.from({ length: 7 }, (_, index) => `stranger ${index}`)
  await insert('events', [
    seen('ann', 500), seen('device', 2), seen('kim', 1), seen('kim', 700), ...strangers.map((each) => seen(each, 24 * 60))
  ])
  await insert('person_overrides', [{ old_person_id: device, person_id: ann, version: 1, is_deleted: 0 }])
  await sql`INSERT INTO persons (project_id, uuid, properties, is_identified) VALUES (${projectId}, ${ann}, '{"email": "ann@example.com"}', true)`

  const found: { uuid: string, last_seen: string }[] = []
  for (let after: string | null = ''; after !== null;) {
    const { body }: any = await call('GET', `~/persons/seen?limit=3${after === '' ? '' : `&after=${after}`}`)
    t.equal(body.searched_from, null)
    found.push(...body.results)
    after = body.next === null ? null : new URL(body.next).searchParams.get('after')
  }

  t.match(found.slice(0, 2), [
    { uuid: personUuid(projectId, 'kim'), name: 'kim', distinct_id: 'kim', last_seen: '2026-03-10T11:00:00.000Z', is_known: false, is_identified: false },
    { uuid: ann, name: 'ann@example.com', distinct_id: 'device', last_seen: '2026-03-10T10:00:00.000Z', is_known: true, is_identified: true }
  ])
  t.equal(found.length, 9)
  t.same(found.slice(2).map(({ uuid }) => uuid).sort(), strangers.map((each) => personUuid(projectId, each)).sort())
})

t.test('persons with a property, and with a value of it', async (t) => {
  const { insert, seen, call, projectId } = await startApi(t)
  const person = (distinctId: string, properties: object): object => ({
    person_id: personUuid(projectId, distinctId), properties: JSON.stringify(properties),
    is_identified: true, created_at: at(900), version: 1, is_deleted: 0
  })
  await insert('events', [seen('ann', 1), seen('kim', 2), seen('lee', 3)])
  await insert('persons', [person('ann', { plan: 'pro', seats: 5 }), person('kim', { plan: 'free' }), person('gone', { plan: 'pro' })])
  const found = async (query: string): Promise<string[]> =>
    (await call('GET', `~/persons/seen?${query}`)).body.results.map((each: { distinct_id: string }) => each.distinct_id)

  t.same(await found(''), ['ann', 'kim', 'lee'])
  t.same(await found('property=plan'), ['ann', 'kim'])
  t.same(await found('property=plan&value=pro'), ['ann'])
  t.same(await found('property=seats&value=5'), ['ann'])
  t.same(await found('property=none'), [])
  t.match(await call('GET', '~/persons/seen?value=pro'), { status: 400, body: { code: 'required', attr: 'property' } })
  t.match(await call('GET', '~/persons/seen?after=x'), { status: 400, body: { attr: 'after' } })
})

t.test('groups by type and key, with their properties; of one project', async (t) => {
  const api = await startApi(t)
  const { sql, call, projectId, client } = api
  await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${projectId}, 'company', 0), (${projectId}, 'team', 1)`
  await sql`INSERT INTO groups (project_id, group_type_index, group_key, properties) VALUES
    (${projectId}, 0, 'acme', '{"name": "Acme Ltd", "seats": 12345678901234567890}'), (${projectId}, 0, 'globex', '{}'), (${projectId}, 1, 'acme', '{}')`

  t.same((await call('GET', '~/groups/types')).body.results, [
    { group_type: 'company', group_type_index: 0, groups: 2 }, { group_type: 'team', group_type_index: 1, groups: 1 }
  ])
  t.match((await call('GET', '~/groups?group_type_index=0')).body, { count: 2, results: [{ group_key: 'acme', properties: { name: 'Acme Ltd' } }, { group_key: 'globex' }] })
  t.match((await call('GET', '~/groups?group_type_index=0&limit=1')).body, { count: 2, next: /after=/, results: [{ group_key: 'acme' }] })
  t.match((await call('GET', '~/groups?group_type_index=0&search=LTD')).body, { count: 1, results: [{ group_key: 'acme' }] })
  t.match((await call('GET', '~/groups?group_type_index=0&group_key=glob')).body, { count: 0 })
  t.match(await call('GET', '~/groups'), { status: 400, body: { code: 'required', attr: 'group_type_index' } })
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [{ company: 'acme' }, { company: 'Zoë & Co' }, { company: 'Zoë & Co', team: 'red' }, { company: '' }, { other: 'x' }, {}].map((groups) => ({
      project_id: projectId, uuid: crypto.randomUUID(), event: 'e', distinct_id: 'u', timestamp: '2026-03-01 10:00:00', groups
    }))
  })
  const listed = (await call('GET', '~/groups?group_type_index=0&limit=2')).body
  t.match(listed, { count: 3, results: [{ group_key: 'Zoë & Co', properties: {}, created_at: null }, { group_key: 'acme', properties: { name: 'Acme Ltd' } }] })
  t.match((await call('GET', listed.next.replace(/^.*\/groups/, '~/groups'))).body.results, [{ group_key: 'globex' }])
  t.match((await call('GET', '~/groups?group_type_index=0&search=zoë')).body, { count: 1 })
  t.match((await call('GET', `~/groups?group_type_index=0&group_key=${encodeURIComponent('Zoë & Co')}`)).body, { count: 1, results: [{ created_at: null }] })
  t.match((await call('GET', '~/groups?group_type_index=1')).body.results, [{ group_key: 'acme' }, { group_key: 'red', created_at: null }])
  const other = await api.inNewProject()
  t.match((await other.call('GET', '~/groups/types')).body, { results: [] })
  t.match((await other.call('GET', '~/groups?group_type_index=0')).body, { count: 0 })
})
