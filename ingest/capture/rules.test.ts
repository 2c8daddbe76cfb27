import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { WarningsMessage } from '../../schema/wire/ingestion-warnings.ts'
import { WARNINGS_STREAM } from '../../schema/wire/streams.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import {
  discardPublished, type StoredEvent, takeMessages, takePersonsUpdates, takePublishedEvents
} from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const [system, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
const { connection, postgres: { sql } } = system

let positions = 0

/** Stores a version and activates it. */
async function activate (name: string, definition: object): Promise<void> {
  await sql.begin(async (tx) => {
    const [row] = await tx<{ id: number, version: number }[]>`
      INSERT INTO event_rules (project_id, name, position) VALUES (1, ${name}, ${++positions})
      ON CONFLICT (project_id, name) DO UPDATE SET version = event_rules.version + 1
      RETURNING id, version`
    await tx`INSERT INTO event_rule_versions (rule_id, version, definition)
      VALUES (${row!.id}, ${row!.version}, ${tx.json(definition)})`
    await tx`UPDATE event_rules SET active_version = version WHERE id = ${row!.id}`
  })
  await whenRead()
}

let keys = 0

/** Resolves when ingest has read active rules, which come with the keys, in one read. */
async function whenRead (): Promise<void> {
  const key = `phc_probe_${++keys}`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${key}, 1, 'project')`
  await waitFor(async () => (await system.post('/batch/', { api_key: key, batch: [event('probe', {})] })).status === 200)
  await discardPublished(connection)
  await warnings()
}

async function send (events: object[]): Promise<void> {
  const response = await system.post('/batch/', { api_key: PROJECT_KEY, batch: events })
  t.equal(response.status, 200, await response.text())
}

interface Sent { event: string, uuid: string, distinct_id: string, timestamp: string, properties: object }

function event (name: string, properties: object, distinctId = 'd'): Sent {
  return { event: name, uuid: randomUUID(), distinct_id: distinctId, timestamp: new Date().toISOString(), properties }
}

async function warnings (): Promise<WarningsMessage[]> {
  return (await takeMessages(connection, WARNINGS_STREAM)).map((message) => message.json<WarningsMessage>())
}

async function stored (): Promise<(Omit<StoredEvent, 'properties'> & { properties: any })[]> {
  const events = await takePublishedEvents(connection, clickhouse)
  return events.map((each) => ({ ...each, properties: JSON.parse(each.properties) }))
}

t.test('drop: not stored, nor what it says about persons; counted by rule, its neighbours are stored', async (t) => {
  await activate('internal', { condition: { type: 'property', key: 'host', operator: 'icontains', value: 'localhost' }, actions: [{ type: 'drop' }] })
  const before = await system.metric('millrace_ingest_events_dropped_total{reason="rule_dropped"}')
  const dropped = { ...event('visit', { host: 'localhost:80', $set: { a: 1 } }, 'secret@me'), $set_once: { b: 1 } }

  await send([dropped, event('visit', { host: 'shop' }), event('$identify', { host: 'localhost', $anon_distinct_id: 'anon' })])

  t.same((await stored()).map((each) => [each.event, each.properties.host]), [['$identify', 'localhost'], ['visit', 'shop']])
  t.match(await takePersonsUpdates(connection), [{ kind: 'merge', otherDistinctId: 'anon' }])
  t.equal(await system.metric('millrace_ingest_events_dropped_total{reason="rule_dropped"}'), before + 1)
  const [message] = await warnings()
  t.match(message, {
    totals: [{ reason: 'rule_dropped', rule: 1, count: 1, samples: [{ event: 'visit', uuid: dropped.uuid, value: 'internal' }] }],
    drops: [{ uuid: dropped.uuid, reason: 'rule_dropped', rule: 'internal' }]
  })
  t.notOk(JSON.stringify(message).includes('secret@me'))
})

t.test('sample: the events of a share of all people, with their weight', async (t) => {
  await activate('sampled', { condition: { type: 'event', value: 'scroll' }, actions: [{ type: 'sample', rate: 0.25 }] })
  const events = Array.from({ length: 200 }, (_, index) => event('scroll', {}, `person ${index % 100}`))

  await send(events)

  const kept = await stored()
  t.ok(kept.length > 20 && kept.length < 80, `${kept.length} of 200`)
  t.ok(kept.every((each) => each.sample_weight === 4))
  t.equal(kept.length % 2, 0, 'both events of somebody, or none')
  const [message] = await warnings()
  t.match(message, { totals: [{ reason: 'rule_sampled', count: 200 - kept.length }] })
})

t.test('properties are removed, hashed and set wherever they are, and addresses cut', async (t) => {
  await activate('clean', {
    condition: { type: 'event', value: 'signup' },
    actions: [
      { type: 'remove_property', property: '$current_url' }, { type: 'hash_property', property: 'email' },
      { type: 'set_property', property: 'source', value: 'web' }, { type: 'truncate_ip' }
    ]
  })

  await send([{ ...event('signup', { $current_url: 'https://a/?token=1', email: 'a@b.c', $ip: '192.0.2.77' }), $set: { email: 'a@b.c', $current_url: 'x' } }])
  await send([event('signup', {})])

  const events = await stored()
  const first = events.find(({ properties }) => properties.email !== undefined)
  const second = events.find(({ properties }) => properties.email === undefined)
  const { email } = first!.properties
  t.match(email, /^[\da-f]{32}$/)
  t.same(first!.properties, { email, $ip: '192.0.2.0', source: 'web', $set: { email } })
  t.match(first, { current_url: '', ip: '192.0.2.0', property_types: 'eSemail\0eS$ip\0eSsource\0pSemail', sample_weight: 1 })
  t.match(second, { ip: '127.0.0.0', properties: { source: 'web' } })
  const [update] = await takePersonsUpdates(connection) as { set: unknown, setOnce: unknown }[]
  t.same(update!.set, { email })
  await waitFor(async () => (await warnings()).some(({ totals }) => totals.some(({ reason, count }) => reason === 'rule_changed' && count === 2)))
})

t.test('a rule about $ip holds for the address of the client, which would be stored in its place', async (t) => {
  const on = (value: string): object => ({ type: 'event', value })
  await activate('no address', { condition: on('bare'), actions: [{ type: 'remove_property', property: '$ip' }] })
  await activate('hidden address', { condition: on('hidden'), actions: [{ type: 'hash_property', property: '$ip' }] })
  await activate('hidden, then cut', { condition: on('both'), actions: [{ type: 'hash_property', property: '$ip' }, { type: 'truncate_ip' }] })

  await send(['bare', 'hidden', 'both'].flatMap((name) => [event(name, {}), event(name, { $ip: '127.0.0.1' }), event(name, { $ip: '' })]))

  const events = await stored()
  const addresses = (name: string): string[] => events.filter((each) => each.event === name).map(({ ip }) => String(ip))
  t.same([...addresses('bare'), ...addresses('both')], ['', '', '', '', '', ''])
  t.equal(addresses('hidden').length, 3)
  t.match(addresses('hidden')[0], /^[\da-f]{32}$/)
  t.equal(new Set(addresses('hidden')).size, 1, 'an address has one hash, whoever names it')
  t.notOk(JSON.stringify(events).includes('127.0.0.1'))
})

t.test('the address of a client is compared also when it is not stored', async (t) => {
  await activate('office', { condition: { type: 'AND', values: [{ type: 'ip', value: '127.0.0.0/8' }, { type: 'event', value: 'from office' }] }, actions: [{ type: 'drop' }] })
  await sql`UPDATE projects SET anonymize_ips = true WHERE id = 1`
  await whenRead()

  await send([event('from office', {}), event('from office', { $ip: '192.0.2.1' })])

  t.match(await stored(), [{ event: 'from office', ip: '', properties: {} }])
  await sql`UPDATE projects SET anonymize_ips = false WHERE id = 1`
})

t.test('an event that comes again after a rule has changed is still the same event', async (t) => {
  const sent = event('repeated', { a: 1, b: 2 })
  await send([sent])
  const fingerprints = async (): Promise<string[]> =>
    (await takeMessages(connection, 'EVENTS')).map((message) => Buffer.from(message.data.subarray(0, 12)).toString('hex'))
  const before = await fingerprints()
  await activate('later', { condition: { type: 'event', value: 'repeated' }, actions: [{ type: 'remove_property', property: 'a' }, { type: 'sample', rate: 0.999 }] })

  await send([sent])

  t.same(await fingerprints(), before)
})

t.test('a large body goes the same ways, also after a rule has changed', async (t) => {
  const text = 'x'.repeat(150_000)
  const body = (): object[] => [
    event('visit', { host: 'localhost', text }), event('signup', { email: 'a@b.c', text }), event('visit', { host: 'shop', text })
  ]

  await send(body())
  const events = await stored()
  t.same(events.map((each) => each.event), ['signup', 'visit'])
  t.match(events[0]!.properties, { email: /^[\da-f]{32}$/, source: 'web' })
  await activate('internal', { condition: { type: 'property', key: 'host', value: 'shop' }, actions: [{ type: 'drop' }] })
  await send(body())
  t.same((await stored()).map((each) => [each.event, each.properties.host]), [['signup', undefined], ['visit', 'localhost']])
})

t.test('a rule that does not compile changes nothing, and disabling rules ends them', async (t) => {
  await activate('broken', { actions: [{ type: 'unknown' }] })
  await send([event('visit', { host: 'shop' }), event('free', {})])
  t.same((await stored()).map((each) => each.event), ['free'])

  await sql`UPDATE event_rules SET active_version = NULL`
  await whenRead()
  await send([event('visit', { host: 'shop' }), event('signup', { email: 'a@b.c' })])
  t.same((await stored()).map((each) => each.properties), [{ email: 'a@b.c' }, { host: 'shop' }])
})
