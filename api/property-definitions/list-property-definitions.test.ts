import t from 'tap'
import { createTestApi } from '../create-test-api.ts'
import { HIDDEN_EVENT_PROPERTIES } from './property-query.ts'

interface Item {
  name: string
  type: 'event' | 'person' | 'group'
  group_type: string
  property_type: string | null
}

interface Filters {
  type: Item['type']
  groupTypeIndex: number | undefined
  search: string | undefined
  properties: string[] | undefined
  excluded: string[] | undefined
  events: string[] | undefined
  mustBeSeen: boolean
  isFeatureFlag: boolean | undefined
  isNumerical: boolean | undefined
}

const EVENTS = ['paid', 'cart', '$pageview', 'name, with "comma"']
const GROUP_TYPES = ['company', 'team']

interface Random {
  next: () => number
  pick: <T>(items: readonly T[]) => T
  some: <T>(items: readonly T[], share: number) => T[]
}

/** A small generator with a seed: the same filters in every run. */
function createRandom (seed: number): Random {
  let state = seed
  const next = (): number => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return state / 4_294_967_296
  }
  return {
    next,
    pick: (items) => items[Math.floor(next() * items.length)]!,
    some: (items, share) => items.filter(() => next() < share)
  }
}

/** The rules of sdk-compat.md 3.4 once more, on plain arrays. */
function model (
  items: Item[], seenOn: Map<string, Set<string>>, filters: Filters
): { name: string, seen: string | null }[] {
  const hidden = filters.type === 'event' ? HIDDEN_EVENT_PROPERTIES : []
  const groupType = filters.groupTypeIndex === undefined ? '' : GROUP_TYPES[filters.groupTypeIndex]
  const events = filters.type === 'event' ? filters.events : undefined
  const words = (filters.search ?? '').toLowerCase().split(/\s+/)
  return items
    .filter((item) => item.type === filters.type && item.group_type === groupType && !hidden.includes(item.name))
    .filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)))
    .filter(({ name }) => filters.properties === undefined || filters.properties.includes(name))
    .filter(({ name }) => filters.excluded?.includes(name) !== true)
    .filter((item) => filters.isNumerical !== true || isMeasure(item))
    .filter(({ name }) => filters.isFeatureFlag === undefined || name.startsWith('$feature/') === filters.isFeatureFlag)
    .map(({ name }) => ({
      name, seen: events === undefined ? null : String(events.some((event) => seenOn.get(event)?.has(name)))
    }))
    .filter(({ seen }) => !filters.mustBeSeen || seen !== 'false')
    .sort((a, b) => rank(a.seen) - rank(b.seen) || Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
}

function isMeasure ({ name, property_type: type }: Item): boolean {
  return type === 'Numeric' && name !== 'timestamp' && name !== 'distinct_id'
}

function rank (seen: string | null): number {
  return seen === 'true' ? 0 : 1
}

function toQuery (filters: Filters, random: Random): URLSearchParams {
  const query = new URLSearchParams()
  const add = (name: string, value: unknown): void => { if (value !== undefined) query.set(name, String(value)) }
  const list = (names: string[] | undefined): string | undefined => {
    if (names === undefined) return undefined
    // Names with a comma, and sometimes others too, go as JSON.
    return names.some((name) => name.includes(',')) || random.next() < 0.5 ? JSON.stringify(names) : names.join(',')
  }
  if (filters.type !== 'event' || random.next() < 0.5) add('type', filters.type)
  add('group_type_index', filters.groupTypeIndex)
  add('search', filters.search)
  add('properties', list(filters.properties))
  add('excluded_properties', list(filters.excluded))
  add('event_names', list(filters.events))
  if (filters.mustBeSeen) add('filter_by_event_names', 'true')
  add('is_feature_flag', filters.isFeatureFlag)
  add('is_numerical', filters.isNumerical)
  return query
}

t.test('agrees with a plain model on random filters', async (t) => {
  const api = await createTestApi(t)
  const random = createRandom(7)
  const names = [
    ...HIDDEN_EVENT_PROPERTIES, 'timestamp', '$feature/checkout', '$feature/a_b', '$browser', 'utm_source', 'Amount net',
    'amount', 'amount_gross', 'a%b', 'éclair', 'with, comma', 'b.*', ...Array.from({ length: 150 }, (_, index) => `property ${index}`)
  ]
  const items = (['event', 'person', 'group'] as const).flatMap((type) => random.some(names, 0.8).map((name): Item => ({
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

  for (let round = 0; round < 150; round++) {
    const type = random.pick(['event', 'event', 'event', 'person', 'group'] as const)
    const filters: Filters = {
      type,
      groupTypeIndex: type === 'group' ? random.pick([0, 1, 2]) : undefined,
      search: random.pick([undefined, undefined, 'amount', 'NET amo', '1', 'property 1 ', '%', '_', '.*', 'é', 'zzz']),
      properties: random.next() < 0.2 ? ['nobody', ...random.some(names, 0.3)] : undefined,
      excluded: random.next() < 0.3 ? ['nobody', ...random.some(names, 0.3)] : undefined,
      events: random.next() < 0.5 ? ['nobody', ...random.some(EVENTS, 0.5)] : undefined,
      mustBeSeen: random.next() < 0.4,
      isFeatureFlag: random.pick([undefined, undefined, true, false]),
      isNumerical: random.pick([undefined, undefined, true, false])
    }
    if (filters.events === undefined || type !== 'event') filters.mustBeSeen = false
    const wanted = model(items, seenOn, filters)
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
  api.sql.options.debug = (_, query) => { queries.push(query) }

  await api.call('GET', '~/property_definitions?event_names=paid&search=a&filter_by_event_names=true')
  await api.call('GET', '~/event_definitions?search=a')

  // A connection that is opened meanwhile asks for the types of the server, and the cache of keys may be refreshed.
  t.equal(queries.filter((query) => query.includes('_definitions')).length, 4)
})
