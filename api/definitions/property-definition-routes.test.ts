import t from 'tap'
import { createProject } from '../projects/project-routes.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'
import { createRandom, listByModel, type ModelProperty, randomFilters, toQuery } from '../testing/property-model.ts'
import { HIDDEN_EVENT_PROPERTIES } from './property-query.ts'

const shared = await createTestApi(t)

async function insert (api: TestApi, name: string, columns: object = {}): Promise<string> {
  const row = { project_id: api.projectId, name, type: 'event', ...columns }
  const [inserted] = await api.sql`INSERT INTO property_definitions ${api.sql(row)} RETURNING id`
  return inserted?.['id'] as string
}

t.test('shows a property with all fields of the contract', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'amount', { property_type: 'Numeric' })

  const { status, body } = await api.call('GET', `~/property_definitions/${id}/`)

  t.equal(status, 200)
  t.match(body.created_at, /^20/)
  t.same({ ...body, created_at: undefined }, {
    id, name: 'amount', is_numerical: true, query_usage_30_day: 0, property_type: 'Numeric', tags: [],
    is_seen_on_filtered_events: null, created_at: undefined, last_seen_at: null,
    description: '', owner: null, verified: false, hidden: false
  })
})

t.test('keeps type and is_numerical consistent, whichever is written', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'size', { property_type: 'DateTime' })
  const patch = async (body: object): Promise<any> => await api.call('PATCH', `~/property_definitions/${id}`, body)

  t.match(await patch({ is_numerical: false }), { status: 200, body: { is_numerical: false, property_type: 'DateTime' } })
  t.match(await patch({ is_numerical: true }), { body: { is_numerical: true, property_type: 'Numeric' } })
  t.match(await patch({ is_numerical: false }), { body: { is_numerical: false, property_type: 'String' } })
  t.match(await patch({ property_type: 'Numeric' }), { body: { is_numerical: true, property_type: 'Numeric' } })
  t.match(await patch({ property_type: 'Boolean' }), { body: { is_numerical: false, property_type: 'Boolean' } })
  t.match(await patch({ property_type: 'Boolean', is_numerical: true }), { status: 400, body: { attr: 'is_numerical' } })
  t.match(await patch({ property_type: null }), { body: { is_numerical: false, property_type: null } })
})

t.test('marks a type that a user set, so that inference keeps it', async (t) => {
  const api = await shared.inNewProject()
  const isManual = async (id: string): Promise<boolean> =>
    (await api.sql`SELECT property_type_is_manual AS manual FROM property_definitions WHERE id = ${id}`)[0]?.['manual']
  const id = await insert(api, 'zip', { property_type: 'Numeric' })
  const patch = async (body: object): Promise<any> => await api.call('PATCH', `~/property_definitions/${id}`, body)

  await patch({ tags: ['address'] })
  t.equal(await isManual(id), false)
  await patch({ is_numerical: false })
  t.equal(await isManual(id), true)
  await patch({ property_type: null })
  t.equal(await isManual(id), false, 'null hands it back')
  await patch({ property_type: 'String' })
  t.equal(await isManual(id), true)
})

t.test('changes the given fields and no others, also when many change them at once', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'busy')
  const changes = [{ name: 'renamed' }, { query_usage_30_day: 7 }, { tags: ['a', 'b', 'a'] }, { property_type: 'Boolean' }]

  const answers = await Promise.all(changes.map(async (change) => await api.call('PATCH', `~/property_definitions/${id}`, change)))

  t.same(answers.map(({ status }) => status), [200, 200, 200, 200])
  t.match((await api.call('GET', `~/property_definitions/${id}`)).body, {
    name: 'renamed', query_usage_30_day: 7, tags: ['a', 'b'], property_type: 'Boolean'
  })
})

t.test('says up to when events are counted', async (t) => {
  const api = await shared.inNewProject()
  t.notOk((await api.call('GET', '~/property_definitions')).headers['millrace-definitions-as-of'])

  // One answer for all projects; nothing else in this file looks at it.
  await api.sql`INSERT INTO roll_up_state VALUES ('recent changes', '2026-01-02T03:04:05Z'), ('daily sweep', '2026-01-02')`

  t.equal((await api.call('GET', '~/property_definitions')).headers['millrace-definitions-as-of'], '2026-01-02T03:04:05.000Z')
})

t.test('refuses invalid values, naming the field', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'first')
  await insert(api, 'taken')
  const cases: [object | string, string, string?][] = [
    [{ property_type: 'Duration' }, 'property_type'], [{ tags: 'a' }, 'tags'], [{ tags: [1] }, 'tags__0'],
    [{ is_numerical: 'true' }, 'is_numerical'], [{ query_usage_30_day: -1 }, 'query_usage_30_day'],
    [{ query_usage_30_day: 1.5 }, 'query_usage_30_day'], [{ name: '' }, 'name'], [{ name: 'n'.repeat(401) }, 'name'],
    [{ name: 'taken' }, 'name', 'unique'], [{ colour: 'red' }, 'colour', 'unknown_field'],
    [{ id: 'x' }, 'id', 'unknown_field'], [{ name: null }, 'name']
  ]

  for (const [body, attr, code] of cases) {
    t.match(await api.call('PATCH', `~/property_definitions/${id}`, body), {
      status: 400, body: { type: 'validation_error', attr, ...(code === undefined ? {} : { code }) }
    }, JSON.stringify(body).slice(0, 50))
  }
  t.match(await api.call('PATCH', `~/property_definitions/${id}`, [1]), { status: 400, body: { attr: 'body' } })
  t.match(await api.call('PATCH', `~/property_definitions/${id}`), { status: 400, body: { attr: 'body' } })
  t.match((await api.call('GET', `~/property_definitions/${id}`)).body, { name: 'first', tags: [] })
})

t.test('refuses invalid filters, naming the parameter', async (t) => {
  const api = await shared.inNewProject()
  const cases: [string, string, string?][] = [
    ['type=session', 'type'], ['type=group', 'group_type_index', '`group_type_index` must be set for `group` type'],
    ['group_type_index=0', 'group_type_index', '`group_type_index` can only be set for `group` type'],
    ['type=person&group_type_index=0', 'group_type_index'], ['type=group&group_type_index=-1', 'group_type_index'],
    ['is_numerical=maybe', 'is_numerical'], ['event_names=[1]', 'event_names'], ['event_names=["a"', 'event_names'],
    ['excluded_properties=["a",{}]', 'excluded_properties'], ['limit=abc', 'limit'], ['limit=-1', 'limit'],
    ['limit=0', 'limit'], ['limit=1001', 'limit'], ['offset=-1', 'offset'], ['offset=1000000000000', 'offset'],
    ['search=%00', 'search'], ['after=x', 'after'], ['limit=1&limit=2', 'limit']
  ]

  for (const [query, attr, detail] of cases) {
    const answer = await api.call('GET', `~/property_definitions?${query}`)
    t.match(answer, { status: 400, body: { type: 'validation_error', attr, ...(detail === undefined ? {} : { detail }) } }, query)
  }
})

t.test('answers 204 to DELETE, once', async (t) => {
  const api = await shared.inNewProject()
  const id = await insert(api, 'gone')

  t.match(await api.call('DELETE', `~/property_definitions/${id}`), { status: 204, body: undefined })
  t.match(await api.call('DELETE', `~/property_definitions/${id}`), { status: 404 })
  t.match(await api.call('GET', `~/property_definitions/${id}`), { status: 404 })
})

t.test('reveals nothing about properties of another project', async (t) => {
  const api = await shared.inNewProject()
  const other = await createProject(api.sql, { name: 'Other' })
  const id = await insert(api, 'mine')
  const path = `/api/projects/${other.id}/property_definitions`

  t.match((await api.call('GET', path)).body, { count: 0 })
  t.match(await api.call('GET', `${path}/${id}`), { status: 404, body: { code: 'not_found' } })
  t.match(await api.call('PATCH', `${path}/${id}`, { name: 'stolen' }), { status: 404 })
  t.match(await api.call('DELETE', `${path}/${id}`), { status: 404 })
  t.match((await api.call('GET', `~/property_definitions/${id}`)).body, { name: 'mine' })
})

t.test('takes the words of a search literally', async (t) => {
  const api = await shared.inNewProject()
  for (const name of ['100% sure', 'a_b', 'axb', "it's; DROP TABLE projects; --", '.*', 'back\\slash', 'Amount Net', 'net']) await insert(api, name)
  const search = async (text: string): Promise<string[]> =>
    (await api.call('GET', `~/property_definitions?search=${encodeURIComponent(text)}`)).body.results.map(({ name }: { name: string }) => name)

  t.same(await search('%'), ['100% sure'])
  t.same(await search('_'), ['a_b'])
  t.same(await search('.*'), ['.*'])
  t.same(await search('\\'), ['back\\slash'])
  t.same(await search("'s; DROP TABLE"), ["it's; DROP TABLE projects; --"])
  t.same(await search('net amount'), ['Amount Net'])
  t.same(await search('[a-z'), [])
  t.equal((await search('  ')).length, 8)
})

const EVENTS = ['paid', 'cart', '$pageview', 'name, with "comma"']
const GROUP_TYPES = ['company', 'team']

t.test('agrees with a plain model on random filters', async (t) => {
  const api = await createTestApi(t)
  const random = createRandom(7)
  const names = [
    ...HIDDEN_EVENT_PROPERTIES, 'timestamp', '$feature/checkout', '$feature/a_b', '$browser', 'utm_source', 'Amount net',
    'amount', 'amount_gross', 'a%b', 'éclair', 'with, comma', 'b.*', ...Array.from({ length: 150 }, (_, index) => `property ${index}`)
  ]
  const items = (['event', 'person', 'group'] as const).flatMap((type) => random.some(names, 0.8).map((name): ModelProperty => ({
    name, type, group_type: type === 'group' ? random.pick(GROUP_TYPES) : '',
    property_type: random.pick([null, 'String', 'Numeric', 'Numeric', 'DateTime', 'Boolean'])
  })))
  const seenOn = new Map(EVENTS.map((event) => [event, new Set(random.some(names, 0.3))]))
  const rows = items.map((item) => ({ project_id: api.projectId, ...item }))
  await api.sql`INSERT INTO property_definitions ${api.sql(rows)}`
  const pairs = EVENTS.flatMap((event) => [...seenOn.get(event) ?? []].map((property) =>
    ({ project_id: api.projectId, event, property })))
  await api.sql`INSERT INTO event_properties ${api.sql(pairs)}`
  await api.sql`INSERT INTO group_types ${api.sql(GROUP_TYPES.map((type, index) => ({ project_id: api.projectId, group_type: type, group_type_index: index })))}`

  const searches = ['amount', 'NET amo', '1', 'property 1 ', '%', '_', '.*', 'é', 'zzz']
  const world = { properties: items, seenOn, groupTypes: GROUP_TYPES }
  for (let round = 0; round < 150; round++) {
    const choices = { names, events: EVENTS, searches, groupTypes: GROUP_TYPES.length, share: 0.3 }
    const filters = randomFilters(random, choices)
    const wanted = listByModel(world, filters)
    const limit = random.pick([1, 7, 100, 1000])
    const offset = Math.floor(random.next() * (wanted.length + 2))

    const { body } = await api.call('GET', `~/property_definitions?${toQuery(filters, random)}&limit=${limit}&offset=${offset}`)

    const found = body.results.map((item: { name: string, is_seen_on_filtered_events: string | null }) =>
      ({ name: item.name, seen: item.is_seen_on_filtered_events }))
    t.equal(body.count, wanted.length)
    t.same(found, wanted.slice(offset, offset + limit), JSON.stringify(filters).slice(0, 100))
  }
})

t.test('neither repeats nor misses an item while others are added and deleted', async (t) => {
  const api = await createTestApi(t)
  const name = (index: number): string => `p${String(index).padStart(4, '0')}`
  const rows = Array.from({ length: 500 }, (_, index) => ({ project_id: api.projectId, type: 'event', name: name(index) }))
  await api.sql`INSERT INTO property_definitions ${api.sql(rows)}`
  await api.sql`INSERT INTO event_properties SELECT project_id, 'paid', name FROM property_definitions WHERE name LIKE '%5'`

  const seen: string[] = []
  let next: string | null = '~/property_definitions/?limit=40&event_names=paid'
  for (let page = 0; next !== null; page++) {
    const { body } = await api.call('GET', next)
    seen.push(...body.results.map((item: { name: string }) => item.name))
    next = body.next?.replace(/^http:\/\/[^/]+/, '') ?? null
    const added = [0, 100, 200, 300, 400].map((at) => ({ project_id: api.projectId, type: 'event', name: `${name(at + page)} new` }))
    await api.sql`INSERT INTO property_definitions ${api.sql(added)}`
    // Already seen, so that its going must not hide others.
    await api.sql`DELETE FROM property_definitions WHERE name = ${seen[page] ?? ''}`
  }

  const old = seen.filter((item) => !item.endsWith('new'))
  t.equal(new Set(seen).size, seen.length, 'no item twice')
  t.same(old.sort(), rows.map((row) => row.name), 'every item once')
})

t.test('asks the database twice for a page, however much it is filtered', async (t) => {
  const queries: string[] = []
  const api = await createTestApi(t)
  await api.call('GET', '~/property_definitions')
  api.sql.onStatement = (text) => { queries.push(text) }

  await api.call('GET', '~/property_definitions?event_names=paid&search=a&filter_by_event_names=true')
  await api.call('GET', '~/event_definitions?search=a')

  // A connection that is opened meanwhile asks for the types of the server, and the cache of keys may be refreshed.
  t.equal(queries.filter((query) => query.includes('_definitions')).length, 4)
})
