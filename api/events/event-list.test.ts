/** The list of stored events: its order, its pages, its filters, and events whose copies are not merged yet. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { personUuid } from '../../schema/wire/identity.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { freePort } from '../../test/support/local-ports.ts'
import { createTestClickHouse, stopMerges } from '../../test/support/test-stores.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, send } from '../testing/create-test-api.ts'
import { type EventList, listEvents } from './event-list.ts'
import { cutSpan } from './day-spans.ts'

const NEWEST = Date.UTC(2026, 2, 10, 12)
const HOUR_MS = 3_600_000

interface Planted {
  uuid: string
  event: string
  distinct_id: string
  timestamp: string
  properties: string
  groups?: object
}

const { client } = await createTestClickHouse(t)
const shared = await createTestApi(t, { clickhouse: client })

/** A project of its own. */
async function startList () {
  const api = await shared.inNewProject()
  const event = (msAgo: number, fields: Partial<Planted> = {}): Planted => ({
    uuid: randomUUID(), event: 'paid', distinct_id: 'jo', properties: '{}',
    timestamp: new Date(NEWEST - msAgo).toISOString().replace('T', ' ').slice(0, 23), ...fields
  })
  return {
    api, event,
    insert: async (events: readonly Planted[]): Promise<void> => {
      await client.insert({
        table: 'events', format: 'JSONEachRow',
        values: events.map((each) => ({ project_id: api.projectId, received_at: each.timestamp, ...each }))
      })
    },
    list: async (query = ''): Promise<any> => {
      const { status, body } = await api.call('GET', `~/events?${query}`)
      if (status !== 200) throw new Error(JSON.stringify(body))
      return body
    }
  }
}

/** Follows `next` to the end. */
async function readAll (list: (query?: string) => Promise<any>, query: string): Promise<string[]> {
  const uuids: string[] = []
  for (let after: string | null = ''; after !== null;) {
    const { results, next } = await list(`${query}${after === '' ? '' : `&after=${after}`}`)
    uuids.push(...results.map((each: Planted) => each.uuid))
    after = next === null ? null : new URL(next).searchParams.get('after')
  }
  return uuids
}

t.test('every event comes once, newest first, over days, equal milliseconds and copies that are not merged', async (t) => {
  const { event, insert, list } = await startList()
  // Days without any lie between; nine of an instant.
  const events = [0, 1, 30, 31, 24 * 40, 24 * 41, 24 * 400]
    .flatMap((hours) => Array.from({ length: 9 }, () => event(hours * HOUR_MS)))
  await stopMerges(t, client, ['events'])
  await insert(events)
  await insert(events.filter((_, index) => index % 2 === 0))

  const uuids = await readAll(list, 'limit=7')
  t.equal(uuids.length, events.length)
  t.same([...uuids].sort(), events.map(({ uuid }) => uuid).sort())
  const timeOf = new Map(events.map(({ uuid, timestamp }) => [uuid, timestamp]))
  const times = uuids.map((uuid) => timeOf.get(uuid)!)
  t.same(times, [...times].sort().reverse())
  t.equal((await list('limit=200')).next, null)
})

t.test('filters: event, distinct id, property and value, group, period', async (t) => {
  const { event, insert, list } = await startList()
  const one = event(0, { properties: '{"plan":"pro","amount":12.5,"vip":true,"tags":["a"]}' })
  const two = event(HOUR_MS, { event: "o'hara \\ {x:String}", distinct_id: 'kim', properties: '{"plan":"free","amount":"12.5"}' })
  const three = event(48 * HOUR_MS, { properties: '{"plan":null}', groups: { company: 'acme' } })
  await insert([one, two, three])
  const found = async (query: Record<string, string>): Promise<string[]> =>
    (await list(String(new URLSearchParams(query)))).results.map(({ uuid }: Planted) => uuid)

  t.same(await found({ event: 'paid' }), [one.uuid, three.uuid])
  t.same(await found({ event: two.event }), [two.uuid])
  t.same(await found({ distinct_id: 'kim' }), [two.uuid])
  t.same(await found({ property: 'plan' }), [one.uuid, two.uuid, three.uuid])
  t.same(await found({ property: 'plan', value: 'pro' }), [one.uuid])
  t.same(await found({ property: 'plan', value: '"pro"' }), [])
  t.same(await found({ property: 'amount', value: '12.5' }), [one.uuid, two.uuid])
  t.same(await found({ property: 'vip', value: 'true' }), [one.uuid])
  t.same(await found({ property: 'tags', value: '["a"]' }), [one.uuid])
  t.same(await found({ property: 'none' }), [])
  t.same(await found({ group_type: 'company', group_key: 'acme' }), [three.uuid])
  t.same(await found({ group_type: 'team', group_key: 'acme' }), [])
  t.same(await found({ from: '2026-03-10T00:00:00Z' }), [one.uuid, two.uuid])
  t.same(await found({ to: '2026-03-10T12:00:00Z' }), [two.uuid, three.uuid], 'the end does not belong to it')
  t.same(await found({ from: '1000-01-01', to: '9999-01-01' }), [one.uuid, two.uuid, three.uuid])
})

t.test('of a person: also its events from before a merge, by either id; and each event says whose it is now', async (t) => {
  const { api, event, insert, list } = await startList()
  const [before, after, other] = [event(HOUR_MS, { distinct_id: 'device' }), event(0), event(0, { distinct_id: 'kim' })]
  await insert([before, after, other])
  const [old, now] = [personUuid(api.projectId, 'device'), personUuid(api.projectId, 'jo')]
  await client.insert({
    table: 'person_overrides', format: 'JSONEachRow',
    values: [{ project_id: api.projectId, old_person_id: old, person_id: now, version: 1, is_deleted: 0 }]
  })

  for (const person of [old, now, now.toUpperCase()]) {
    const { results } = await list(`person=${person}`)
    t.match(results, [{ uuid: after.uuid, person_id: now }, { uuid: before.uuid, person_id: now }], person)
    t.equal(results.length, 2)
  }
  t.same((await list(`person=${randomUUID()}`)).results, [])
})

t.test('says up to when it is complete, and where an event happened', async (t) => {
  const { event, insert, list } = await startList()
  t.match(await list(), { results: [], next: null, searched_from: null, complete_through: null })
  await client.command({ query: "INSERT INTO watermark_reached SELECT 0, toDateTime64('2026-03-10 11:59:00.500', 3, 'UTC'), (now64(3, 'UTC'), '')" })
  const page = { ...event(0), current_url: 'https://shop.example/a', screen_name: 'Home', lib: 'web', lib_version: '1.2', is_bot: 1 }
  await insert([page, { ...event(1), screen_name: 'Cart' } as Planted])

  t.match(await list(), {
    complete_through: '2026-03-10T11:59:00.500Z',
    results: [
      { uuid: page.uuid, event: 'paid', distinct_id: 'jo', place: 'https://shop.example/a', lib: 'web', lib_version: '1.2', is_bot: true, timestamp: '2026-03-10T12:00:00.000Z' },
      { place: 'Cart', is_bot: false }
    ]
  })
})

t.test('a search that takes too long says how far it came, and goes on from there', async (t) => {
  const { api, event, insert } = await startList()
  const [near, far] = [event(0, { properties: '{"a":1}' }), event(24 * 9 * HOUR_MS, { properties: '{"a":1}' })]
  await insert([near, event(24 * HOUR_MS), far])
  // As many that the day of the second event ends the first span.
  await client.insert({
    table: 'event_volumes_by_day', format: 'JSONEachRow',
    values: [{ project_id: api.projectId, event: 'paid', day: '2026-03-09', volume: 1_000_000 }]
  })
  let spans = 0
  const query: typeof client.query = async (asked) => {
    if (asked.query.includes('LIMIT {limit: UInt32}') && ++spans === 2) throw new Error('Timeout error.')
    return await client.query(asked)
  }
  const slow: typeof client = Object.assign(Object.create(client), { query })
  const list = async (after?: string): Promise<EventList> =>
    await listEvents(slow, api.projectId, { property: 'a', limit: 50, ...after !== undefined && { after } })

  const first = await list()
  t.match(first, { results: [{ uuid: near.uuid }], searchedFrom: Date.UTC(2026, 2, 9), after: String })
  t.equal(first.results.length, 1)
  t.match(await list(first.after), { results: [{ uuid: far.uuid }], searchedFrom: null, after: undefined })
  spans = 1
  await t.rejects(list(), { message: 'Timeout error.' }, 'nothing was found in time')
})

t.test('nobody reads events of another project; forged cursors and wrong values are refused', async (t) => {
  const { api, event, insert } = await startList()
  await insert([event(0)])
  const other = await api.inNewProject()
  t.same((await other.call('GET', '~/events')).body.results, [])
  const { key } = await createPersonalKey(api.sql, { email: 'ann@example.com', label: 'p', scopes: ['person:read'], projectIds: null, expiresAt: null })
  await api.keys.refresh()
  const url = `/api/projects/${api.projectId}/events`
  t.match(await send(api.app, { url, headers: { authorization: `Bearer ${key}` } }), { status: 403 })

  const forge = (...values: string[]): string => Buffer.from(JSON.stringify(values)).toString('base64url')
  for (const after of ['x', forge('newest minute', '5', 'a'), forge('newest events', '5', "' OR 1"), forge('newest events', 'now', 'a')]) {
    t.match(await api.call('GET', `~/events?after=${after}`), { status: 400, body: { attr: 'after' } }, after)
  }
  for (const parameter of ['person=ann', 'from=yesterday', 'limit=0', 'limit=201']) {
    t.match(await api.call('GET', `~/events?${parameter}`), { status: 400, body: { attr: parameter.split('=')[0] } }, parameter)
  }
  for (const [parameter, missing] of [['value=1', 'property'], ['group_type=company', 'group_key'], ['group_key=acme', 'group_type']] as const) {
    t.match(await api.call('GET', `~/events?${parameter}`), { status: 400, body: { code: 'required', attr: missing } }, parameter)
  }
})

t.test('says that ClickHouse is unavailable', async (t) => {
  const clickhouse = connectClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(async () => await clickhouse.close())
  const api = await createTestApi(t, { clickhouse })
  t.match(await api.call('GET', '~/events'), { status: 503, body: { code: 'clickhouse_unavailable' } })
})

t.test('spans are cut by how many events the days have, and the last one has no end', async (t) => {
  const days = [5, 4, 3, 2].map((day) => ({ day, volume: 10 }))
  t.same(cutSpan(days, 0, 1), { from: 5, next: 1 })
  t.same(cutSpan(days, 1, 15), { from: 3, next: 3 })
  t.same(cutSpan(days, 3, 1), { next: 4 })
  t.same(cutSpan(days, 0, 40), { next: 4 })
  t.same(cutSpan([], 0, 1), { next: 0 })
})
