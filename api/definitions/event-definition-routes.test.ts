import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createProject } from '../projects/project-routes.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'

const shared = await createTestApi(t)

async function insert (api: TestApi, name: string, columns: object = {}): Promise<string> {
  const [row] = await api.sql`INSERT INTO event_definitions ${api.sql({ project_id: api.projectId, name, ...columns })} RETURNING id`
  return row?.['id'] as string
}

t.test('shows an event with all fields of the contract', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'paid', {
    volume_30_day: 42, last_seen_at: new Date('2026-01-02T03:04:05.678Z'), created_by: api.user.id,
    created_at: new Date('2026-01-01T00:00:00Z'), last_updated_at: new Date('2026-01-01T00:00:00Z')
  })

  const { status, body } = await api.call('GET', `~/event_definitions/${id}/`)

  t.equal(status, 200)
  t.same(body, {
    id, name: 'paid', volume_30_day: 42, query_usage_30_day: 0, created_at: '2026-01-01T00:00:00.000Z',
    last_seen_at: '2026-01-02T03:04:05.678Z', last_updated_at: '2026-01-01T00:00:00.000Z', tags: [], is_action: 'false',
    action_id: null, is_calculating: false, last_calculated_at: null, created_by: api.user, post_to_slack: false,
    description: '', owner: null, verified: false, hidden: false
  })
})

t.test('writes every writable field, and says when', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'paid', { last_updated_at: new Date('2020-01-01') })
  const changes = {
    name: 'order paid', volume_30_day: 9_007_199_254_740_991, query_usage_30_day: 3, tags: ['x', 'y'], post_to_slack: true
  }

  const { status, body } = await api.call('PATCH', `~/event_definitions/${id}/`, {
    ...changes, created_at: '2026-01-01', last_seen_at: '2026-01-01T10:00:00+02:00'
  })

  t.equal(status, 200)
  t.match(body, { ...changes, created_at: '2026-01-01T00:00:00.000Z', last_seen_at: '2026-01-01T08:00:00.000Z' })
  t.ok(Date.parse(body.last_updated_at) > Date.now() - 60_000)
  t.same((await api.call('GET', `~/event_definitions/${id}`)).body, body)
  t.same((await api.call('PATCH', `~/event_definitions/${id}`, {})).body, body, 'nothing to change changes nothing')
})

t.test('loses nothing when many change an event at once', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'busy')
  const changes = [
    { name: 'renamed' }, { volume_30_day: 1 }, { query_usage_30_day: 2 }, { tags: ['a'] }, { post_to_slack: true },
    { created_at: '2026-01-01T00:00:00.000Z' }, { last_seen_at: '2026-02-01T00:00:00.000Z' }
  ]

  await Promise.all(changes.map(async (change) => await api.call('PATCH', `~/event_definitions/${id}`, change)))

  t.match((await api.call('GET', `~/event_definitions/${id}`)).body, Object.assign({}, ...changes))
})

t.test('refuses invalid values, naming the field', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'first')
  await insert(api, 'taken')
  const cases: [object, string, string?][] = [
    [{ name: 'taken' }, 'name', 'unique'], [{ name: 'n'.repeat(401) }, 'name'], [{ name: '' }, 'name'],
    [{ volume_30_day: '5' }, 'volume_30_day'], [{ volume_30_day: -1 }, 'volume_30_day'],
    [{ query_usage_30_day: 2 ** 60 }, 'query_usage_30_day'], [{ created_at: 'yesterday' }, 'created_at'],
    [{ created_at: '2026-02-30T00:00:00Z' }, 'created_at'], [{ last_seen_at: '2026-13-01' }, 'last_seen_at'],
    [{ last_seen_at: 1700000000 }, 'last_seen_at'], [{ tags: 'a' }, 'tags'], [{ tags: { a: 1 } }, 'tags'],
    [{ post_to_slack: 'yes' }, 'post_to_slack'], [{ last_updated_at: '2026-01-01' }, 'last_updated_at', 'unknown_field'],
    [{ tags: ['nul\0'] }, 'tags__0']
  ]

  for (const [body, attr, code] of cases) {
    t.match(await api.call('PATCH', `~/event_definitions/${id}`, body), {
      status: 400, body: { type: 'validation_error', attr, ...(code === undefined ? {} : { code }) }
    }, JSON.stringify(body).slice(0, 60))
  }
  t.match(await api.call('GET', '~/event_definitions/not-a-uuid'), { status: 400, body: { attr: 'id' } })
  t.match(await api.call('GET', '~/event_definitions?ordering=colour'), { status: 400, body: { attr: 'ordering' } })
  t.match(await api.call('GET', '~/event_definitions?event_type=odd'), { status: 400, body: { attr: 'event_type' } })
})

t.test('lists by name, volume and last seen, by type and by words', async (t) => {
  const api = await shared.inNewProject()
  await insert(api, '$pageview', { volume_30_day: 5, last_seen_at: new Date('2026-01-03') })
  await insert(api, 'order paid', { volume_30_day: 7, last_seen_at: new Date('2026-01-01') })
  await insert(api, 'Order 100%', { volume_30_day: 5, last_seen_at: new Date('2026-01-02') })
  await insert(api, 'never seen', { volume_30_day: 0 })
  const names = async (query: string): Promise<string[]> =>
    (await api.call('GET', `~/event_definitions?${query}`)).body.results.map(({ name }: { name: string }) => name)

  t.same(await names(''), ['$pageview', 'Order 100%', 'never seen', 'order paid'])
  t.same(await names('ordering=-name'), ['order paid', 'never seen', 'Order 100%', '$pageview'])
  t.same(await names('ordering=volume_30_day'), ['never seen', '$pageview', 'Order 100%', 'order paid'])
  t.same(await names('ordering=-volume_30_day'), ['order paid', '$pageview', 'Order 100%', 'never seen'])
  t.same(await names('ordering=-last_seen_at'), ['$pageview', 'Order 100%', 'order paid', 'never seen'])
  t.same(await names('ordering=last_seen_at'), ['never seen', 'order paid', 'Order 100%', '$pageview'])
  t.same(await names('event_type=event_posthog'), ['$pageview'])
  t.same(await names('event_type=event_custom'), ['Order 100%', 'never seen', 'order paid'])
  t.same(await names('search=ORDER'), ['Order 100%', 'order paid'])
  t.same(await names('search=%25'), ['Order 100%'])
})

t.test('walks every order to the end without repeating or missing, while events are added', async (t) => {
  const api = await shared.inNewProject()
  const rows = Array.from({ length: 300 }, (_, index) => ({
    project_id: api.projectId, name: `e${String(index * 7 % 300).padStart(3, '0')}`, volume_30_day: index % 11,
    last_seen_at: index % 5 === 0 ? null : new Date(Date.UTC(2026, 0, 1 + index % 13))
  }))
  await api.sql`INSERT INTO event_definitions ${api.sql(rows)}`
  // What a roll-up writes has microseconds.
  await api.sql`UPDATE event_definitions SET last_seen_at = last_seen_at + interval '123 microseconds'`

  let added = 0
  for (const ordering of ['name', '-name', 'volume_30_day', '-volume_30_day', 'last_seen_at', '-last_seen_at']) {
    const seen: string[] = []
    let next: string | null = `~/event_definitions/?limit=23&ordering=${ordering}`
    while (next !== null) {
      const { body } = await api.call('GET', next)
      seen.push(...body.results.map(({ name }: { name: string }) => name))
      next = body.next?.replace(/^http:\/\/[^/]+/, '') ?? null
      await insert(api, `${['a', 'e150', 'z'][added % 3]} new ${added++}`, { volume_30_day: added % 11 })
    }
    t.equal(new Set(seen).size, seen.length, `${ordering}: no item twice`)
    t.same(seen.filter((name) => !name.includes('new')).sort(), rows.map(({ name }) => name).sort(), `${ordering}: every item`)
  }
})

t.test('says up to when events are counted', async (t) => {
  const api = await shared.inNewProject()
  t.notOk((await api.call('GET', '~/event_definitions')).headers['millrace-definitions-as-of'])

  // One answer for all projects; nothing else in this file looks at it.
  await api.sql`INSERT INTO roll_up_state VALUES ('recent changes', '2026-01-02T03:04:05Z'), ('daily sweep', '2026-01-02')`

  t.equal((await api.call('GET', '~/event_definitions')).headers['millrace-definitions-as-of'], '2026-01-02T03:04:05.000Z')
})

t.test('hides a deleted event, and reveals nothing about those of another project', async (t) => {
  const api = await shared.inNewProject()
  const other = await createProject(api.sql, { name: 'Other' })
  const id = await insert(api, 'gone')
  const path = `/api/projects/${other.id}/event_definitions/${id}`

  for (const [method, body] of [['GET'], ['PATCH', { name: 'stolen' }], ['DELETE']] as const) {
    t.match(await api.call(method, path, body), { status: 404, body: { type: 'invalid_request', code: 'not_found' } })
  }
  t.match(await api.call('DELETE', `~/event_definitions/${id}/`), { status: 204, body: undefined })
  t.match(await api.call('GET', `~/event_definitions/${id}`), { status: 404 })
  t.match(await api.call('DELETE', `~/event_definitions/${id}`), { status: 404 })
})

t.test('an id that is no UUID is refused by its name', async (t) => {
  const api = await createTestApi(t)
  t.match(await api.call('GET', '~/event_definitions/no-uuid/'), { status: 400, body: { attr: 'id' } })
})

const NOW = Date.parse('2026-03-31T23:59:00Z')

t.test('counts the events of each day, whatever their names', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client, now: () => NOW })
  const names = ['paid', "it's", '\u{1f600}'.repeat(100), ...Array.from({ length: 20 }, (_, n) => `${n}${'ü'.repeat(190)}`)]
  const ids: string[] = []
  for (const name of names) {
    const [row] = await api.sql<{ id: string }[]>`
      INSERT INTO event_definitions (project_id, name) VALUES (${api.projectId}, ${name}) RETURNING id`
    ids.push(row!.id)
  }
  const add = async (event: string, day: string, volume: number, project = api.projectId): Promise<void> => {
    const row = { project_id: project, event, day, volume, last_seen: `${day} 00:00:00`, last_inserted: `${day} 00:00:00` }
    await client.insert({ table: 'event_volumes_by_day', format: 'JSONEachRow', values: [row] })
  }
  for (const name of names) await add(name, '2026-03-31', 2)
  await add('paid', '2026-03-31', 3)
  await add('paid', '2026-03-02', 7)
  await add('paid', '2026-03-01', 100)
  await add('paid', '2026-04-02', 100)
  await add('paid', '2026-03-30', 100, api.projectId + 1)

  const { status, body } = await api.call('GET', `~/event_definitions/volumes/?ids=${ids.join()}`)

  t.equal(status, 200)
  t.equal(body.from, '2026-03-02')
  const results = body.results as { id: string, volumes: number[] }[]
  const byId = new Map(results.map(({ id, volumes }) => [id, volumes]))
  t.same(byId.get(ids[0]!), [7, ...Array.from({ length: 28 }, () => 0), 5])
  t.ok(ids.every((id) => byId.get(id)?.at(-1)! >= 2), 'each name, in however many queries')
  const other = await api.inNewProject()
  t.same((await other.call('GET', `~/event_definitions/volumes/?ids=${ids[0]}`)).body.results, [], 'nothing of another project')
})

t.test('refuses invalid lists of ids, and says that ClickHouse is unavailable', async (t) => {
  const api = await createTestApi(t)
  const [row] = await api.sql<{ id: string }[]>`INSERT INTO event_definitions (project_id, name) VALUES (${api.projectId}, 'paid') RETURNING id`

  t.same((await api.call('GET', '~/event_definitions/volumes/')).body.results, [])
  t.match(await api.call('GET', '~/event_definitions/volumes/?ids=7'), { status: 400, body: { attr: 'ids' } })
  t.match(await api.call('GET', `~/event_definitions/volumes/?ids=${row!.id}`), { status: 503, body: { code: 'clickhouse_unavailable' } })
})
