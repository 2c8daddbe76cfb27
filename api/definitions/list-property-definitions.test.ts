import t from 'tap'
import { createTestApi } from '../testing/create-test-api.ts'
import { createRandom, listByModel, type ModelProperty, randomFilters, toQuery } from '../testing/property-model.ts'
import { HIDDEN_EVENT_PROPERTIES } from './property-query.ts'

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
