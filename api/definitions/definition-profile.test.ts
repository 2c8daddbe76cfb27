/** Statistics of a definition's events, from real stores. */
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, send, type TestApi } from '../testing/create-test-api.ts'

const NOW = Date.parse('2026-03-31T12:00:00Z')

const { client } = await createTestClickHouse(t)
const shared = await createTestApi(t, { clickhouse: client, now: () => NOW })

async function insert (api: TestApi, kind: 'event' | 'property', name: string, columns: object = {}): Promise<string> {
  const row = { project_id: api.projectId, name, ...(kind === 'property' ? { type: 'event' } : {}), ...columns }
  const table = kind === 'event' ? api.sql`event_definitions` : api.sql`property_definitions`
  const [inserted] = await api.sql<{ id: string }[]>`INSERT INTO ${table} ${api.sql(row)} RETURNING id`
  return inserted!.id
}

interface Planted {
  event?: string
  day: string
  types: string
  properties: object
  count?: number
}

async function plant (api: TestApi, events: Planted[]): Promise<void> {
  const values = events.flatMap(({ event = 'paid', day, types, properties, count = 1 }) =>
    Array.from({ length: count }, () => ({
      project_id: api.projectId, uuid: crypto.randomUUID(), event, distinct_id: 'ann', timestamp: `${day} 10:00:00.000`, received_at: `${day} 10:00:00.000`,
      properties: JSON.stringify(properties), property_types: types
    })))
  await client.insert({ table: 'events', format: 'JSONEachRow', values })
}

t.test('a property: types by day, sample values and events', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'property', 'plan')
  await plant(api, [
    { day: '2026-03-02', types: 'eSplan\0eNamount', properties: { plan: 'pro', amount: 1 } },
    { day: '2026-03-31', types: 'eSplan', properties: { plan: 'free' } },
    { day: '2026-03-31', types: 'eNplan', properties: { plan: 7 }, event: 'moved', count: 6 },
    { day: '2026-03-01', types: 'eBplan', properties: { plan: true }, count: 9 },
    { day: '2026-04-01', types: 'eBplan', properties: { plan: true }, count: 9 },
    { day: '2026-03-30', types: 'pSplan', properties: { $set: { plan: 'of the person' } }, count: 9 },
    { day: '2026-03-30', types: 'eSplanet', properties: { planet: 'x' }, count: 9 }
  ])
  const other = await shared.inNewProject()
  await plant(other, [{ day: '2026-03-31', types: 'eSplan', properties: { plan: 'foreign' }, count: 9 }])

  const { status, body } = await api.call('GET', `~/property_definitions/${id}/profile/`)

  t.equal(status, 200)
  t.equal(body.from, '2026-03-02')
  t.same(body.types.map(({ type, events, share, samples }: any) => ({ type, events, share, samples })), [
    { type: 'Numeric', events: 6, share: 0.75, samples: [{ value: '7', events: 6 }] },
    { type: 'String', events: 2, share: 0.25, samples: [{ value: '"free"', events: 1 }] }
  ])
  const text = body.types[1]
  t.same(text.volumes, [1, ...Array.from({ length: 28 }, () => 0), 1])
  t.match(text, { first_seen_at: '2026-03-02T10:00:00.000Z', last_seen_at: '2026-03-31T10:00:00.000Z' })
  t.same(body.events, [{ name: 'paid', events: 20 }, { name: 'moved', events: 6 }])

  t.equal((await other.call('GET', `~/property_definitions/${id}/profile/`)).status, 404)

  t.same((await api.call('GET', '~/property_definitions/volumes/?type=person')).body.results, [{ name: 'plan', volume: 9 }])
  t.same((await other.call('GET', '~/property_definitions/volumes/')).body.results, [{ name: 'plan', volume: 9 }])
  t.same((await api.call('GET', '~/property_definitions/volumes/')).body.results.map(({ name }: { name: string }) => name), ['plan', 'planet', 'amount'], 'the most frequent first')
})

t.test('properties of persons and groups, and values that a key may not see', async (t) => {
  const api = await shared.inNewProject()
  const person = await insert(api, 'property', 'plan', { type: 'person' })
  const group = await insert(api, 'property', 'size', { type: 'group', group_type: 'company' })
  await plant(api, [
    { day: '2026-03-30', types: 'pSplan', properties: { $set_once: { plan: "it's" } } },
    { day: '2026-03-30', types: 'gNcompany\x01size', properties: { $group_set: { size: 12 } } }
  ])
  t.match((await api.call('GET', `~/property_definitions/${person}/profile/`)).body.types, [{ type: 'String', samples: [{ value: '"it\'s"', events: 1 }] }])
  t.match((await api.call('GET', `~/property_definitions/${group}/profile/`)).body.types, [{ type: 'Numeric', samples: [{ value: '12' }] }])

  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: 'few', scopes: ['property_definition:read'], projectIds: [api.projectId], expiresAt: null })
  await api.keys.refresh()
  const ask = async (path: string): Promise<any> => await send(api.app, { method: 'GET', url: `/api/projects/${api.projectId}/property_definitions/${person}${path}`, headers: { authorization: `Bearer ${key}` } })
  t.match((await ask('/profile')).body.types, [{ type: 'String', events: 1, samples: null }])
})

t.test('an event: its properties', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'event', 'paid')
  await plant(api, [
    { day: '2026-03-30', types: 'eSplan\0eNamount', properties: { plan: 'a', amount: 1 }, count: 2 },
    { day: '2026-03-31', types: 'eNplan', properties: { plan: 1 } },
    { day: '2026-03-31', types: 'eNplan', properties: { plan: 1 }, event: 'other' }
  ])

  const { body } = await api.call('GET', `~/event_definitions/${id}/profile/`)

  t.same(body.properties, [{ name: 'plan', types: ['String', 'Numeric'], events: 3 }, { name: 'amount', types: ['Numeric'], events: 2 }])
})

t.test('says that ClickHouse is unavailable, and refuses invalid ids', async (t) => {
  const api = await createTestApi(t)
  const property = await insert(api, 'property', 'plan')
  const event = await insert(api, 'event', 'paid')
  for (const path of [`property_definitions/${property}/profile`, `event_definitions/${event}/profile`]) {
    t.match(await api.call('GET', `~/${path}`), { status: 503, body: { code: 'clickhouse_unavailable' } }, path)
  }
  t.match(await api.call('GET', '~/property_definitions/7/profile'), { status: 400, body: { attr: 'id' } })
})
