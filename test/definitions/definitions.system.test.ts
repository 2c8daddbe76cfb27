import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import {
  createRandom, listByModel, randomFilters, toQuery, type ModelProperty
} from '../../api/testing/property-model.ts'
import { startStackOnSharedStores } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { createEventSource, EVENT_NAMES, keyOf, listEventsByModel, PROPERTIES, randomEventFilters, typeOf } from './made-up-events.ts'
import { sendBatches } from './definition-system.ts'

/**
 * Definitions through the whole system: 60,000 events of 300 names and 2,000 properties go in over HTTP, and what
 * the API says afterwards is compared with what is known about them, whatever is asked. A campaign sends more:
 * `MILLRACE_TEST_EVENTS=200000 npx node test/definitions/definitions.system.test.ts`.
 */
const EVENTS = Number(process.env.MILLRACE_TEST_EVENTS ?? 60_000)
/** Number of events sent first: most properties that heal still have their wrong type then. */
const FIRST = 3000
const SEARCHES = ['count', 'OF share', '1', '%', '_', '.*', "it's", 'größe', '$f', '🎉', 'zzz', "'; DROP TABLE x; --", '\\']

const stack = await startStackOnSharedStores(t)
const source = createEventSource(5, Date.now())

async function call (method: string, path: string, body?: unknown): Promise<any> {
  const response = await fetch(path.startsWith('http') ? path : `${stack.url}/api/projects/1${path}`, {
    method,
    headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await response.text()
  if (response.status >= 300) throw new Error(`${method} ${path} ${response.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

/** All items of a list, by following its pages. */
async function listAll (path: string): Promise<any[]> {
  const items: any[] = []
  for (let next = path; next !== null;) {
    const page = await call('GET', next)
    items.push(...page.results)
    next = page.next
  }
  return items
}

/** Waits until the definitions have counted everything that was sent. */
async function waitUntilCounted (): Promise<void> {
  const volume = [...source.events.values()].reduce((sum, known) => sum + known.volume, 0)
  await waitFor(async () => {
    const [row] = await stack.sql`SELECT sum(volume_30_day) AS volume FROM event_definitions`
    return Number(row?.['volume']) === volume
  })
}

/** Types that a person chose, by the name of the event property. */
const chosen = new Map<string, string>()

/** The properties as the API must tell of them. */
function knownProperties (): ModelProperty[] {
  return [...source.properties.values()].map((known) => {
    const { name, type, groupType } = known.property
    const byHand = type === 'event' ? chosen.get(name) : undefined
    return { name, type, group_type: groupType, property_type: byHand ?? typeOf(known) }
  })
}

const LISTS: [type: ModelProperty['type'], groupType: string][] = [
  ['event', ''], ['person', ''], ['group', 'company'], ['group', 'team']
]

async function groupTypes (): Promise<string[]> {
  const rows = await stack.sql`SELECT group_type, group_type_index FROM group_types WHERE project_id = 1 ORDER BY 2`
  return rows.map((row) => row['group_type'])
}

/** Properties whose type differs from that of their values. */
const findWrong = (found: ReadonlyMap<string, any>): ModelProperty[] => knownProperties().filter((known) => {
  const { property_type: type, is_numerical: isNumerical } = found.get(keyOf(known)) ?? {}
  return type !== known.property_type || isNumerical !== (type === 'Numeric')
})

/**
 * Properties once all that was sent is in their types and in the pairs of events and properties: of a project with many
 * names, a round may write the definitions of events alone.
 */
async function listPropertiesWhenCounted (): Promise<Map<string, any>> {
  let found = new Map<string, any>()
  await waitFor(async () => {
    found = await listProperties()
    return found.size === PROPERTIES && findWrong(found).length === 0
  }).catch(() => {})
  const pairs = [...source.seenOn.values()].reduce((sum, { size }) => sum + size, 0)
  await waitFor(async () => Number((await stack.sql`SELECT count(*) AS n FROM event_properties`)[0]?.['n']) >= pairs)
  return found
}

async function listProperties (): Promise<Map<string, any>> {
  const types = await groupTypes()
  const found = new Map<string, any>()
  for (const [type, groupType] of LISTS) {
    const index = groupType === '' ? '' : `&group_type_index=${types.indexOf(groupType)}`
    for (const item of await listAll(`/property_definitions/?limit=1000&type=${type}${index}`)) {
      found.set(keyOf({ type, group_type: groupType, name: item.name }), item)
    }
  }
  return found
}

t.test('a type is there after the first values, a person may choose another one', async (t) => {
  await sendBatches(stack, source.make, FIRST)
  await waitUntilCounted()

  const found = await listPropertiesWhenCounted()
  t.same(findWrong(found), [])
  t.ok(knownProperties().some(({ name, property_type: type }) => name.startsWith('healed') && type === 'String'))
  for (const name of ['label 0', 'count 3', 'nothing 5', 'healed 2']) {
    const { id } = found.get(keyOf({ type: 'event', group_type: '', name }))
    await call('PATCH', `/property_definitions/${id}/`, { property_type: 'DateTime' })
    chosen.set(name, 'DateTime')
  }
  const deleted = found.get(keyOf({ type: 'event', group_type: '', name: 'label 1' }))
  await call('DELETE', `/property_definitions/${deleted.id}/`)
})

t.test('every volume, last_seen_at and type is that of all events', async (t) => {
  const startedAt = performance.now()
  await sendBatches(stack, source.make, EVENTS - FIRST)
  const sentMs = performance.now() - startedAt
  await waitUntilCounted()
  t.comment(`sent in ${Math.round(sentMs)} ms, counted ${Math.round(performance.now() - startedAt - sentMs)} ms later`)

  const events = await listAll('/event_definitions/?limit=100')
  t.equal(events.length, EVENT_NAMES)
  const [stored] = await stack.select<{ rows: string }>('SELECT toString(count()) AS rows FROM events')
  t.equal(stored?.rows, String(EVENTS), 'each event once, those sent twice too')
  const differing = events.filter(({ name, volume_30_day: volume, last_seen_at: lastSeen }) => {
    const known = source.events.get(name)
    return known === undefined || known.volume !== volume || known.lastSeen !== Date.parse(lastSeen)
  })
  t.same(differing, [])

  const found = await listPropertiesWhenCounted()
  t.equal(found.size, PROPERTIES)
  t.same(findWrong(found), [])
  t.notOk(knownProperties().some(({ name, property_type: type }) => name.startsWith('healed') && type === 'String'))
})

t.test('a list of properties with any filters is that of a plain model', async (t) => {
  const random = createRandom(11)
  const properties = knownProperties()
  const world = { properties, seenOn: source.seenOn, groupTypes: await groupTypes() }
  const names = properties.map(({ name }) => name)
  const choices = { names, events: [...source.events.keys()], searches: SEARCHES, groupTypes: 2, share: 0.02 }
  const differing: unknown[] = []
  for (let round = 0; round < 200; round++) {
    const filters = randomFilters(random, choices)
    const wanted = listByModel(world, filters)
    const limit = random.pick([1, 7, 100, 1000])
    const offset = Math.floor(random.next() * (wanted.length + 2))

    const page = await call('GET', `/property_definitions?${toQuery(filters, random)}&limit=${limit}&offset=${offset}`)

    const found = page.results.map((item: any) => ({ name: item.name, seen: item.is_seen_on_filtered_events }))
    const answered = { count: page.count, found }
    const right = { count: wanted.length, found: wanted.slice(offset, offset + limit) }
    if (!isDeepStrictEqual(answered, right)) differing.push({ filters, limit, offset, answered, right })
  }
  t.same(differing.slice(0, 3), [])
})

t.test('a list of events with any filters and order is that of a plain model', async (t) => {
  const random = createRandom(12)
  const differing: unknown[] = []
  for (let round = 0; round < 100; round++) {
    const filters = randomEventFilters(random, ['order', 'PAID 1', ...SEARCHES])
    const wanted = listEventsByModel(source.events, filters)
    const limit = random.pick([1, 7, 100, 1000])
    const offset = Math.floor(random.next() * (wanted.length + 2))
    const { search, eventType, ordering } = filters
    const parameters = { search, event_type: eventType, ordering, limit: String(limit), offset: String(offset) }
    const query = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined)

    const page = await call('GET', `/event_definitions/?${new URLSearchParams(query)}`)

    const found = page.results.map(({ name }: { name: string }) => name)
    const answered = { count: page.count, found }
    const right = { count: wanted.length, found: wanted.slice(offset, offset + limit) }
    if (!isDeepStrictEqual(answered, right)) differing.push({ filters, limit, offset, answered, right })
  }
  t.same(differing.slice(0, 3), [])
})

t.test('a new event is listed and counted', async (t) => {
  for (const volume of [1, 2]) {
    await sendBatches(stack, () => [{ event: 'fresh', distinct_id: 'd', uuid: randomUUID() }], 1)
    await waitFor(async () => (await call('GET', '/event_definitions/?search=fresh')).results[0]?.volume_30_day === volume)
  }
})
