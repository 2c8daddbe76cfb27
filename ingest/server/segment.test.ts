/** The stock SDKs of Segment and RudderStack for Node, and what their messages become (docs/send/connect-sdk.md). */
import { randomUUID } from 'node:crypto'
import { Analytics } from '@segment/analytics-node'
import RudderAnalytics from '@rudderstack/rudder-sdk-node'
import t from 'tap'
import type { Project } from '../../platform/directory/read-keys.ts'
import { findEvents } from '../capture/find-events.ts'
import type { EventRow } from '../event.ts'
import { takeBody } from '../capture/take-parsed-body.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { type StoredEvent, takePersonsUpdates, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const clickhouse = await createTestClickHouse(t)
const { url, connection, post, metric } = await startTestIngest(t)

function byName (stored: StoredEvent[]): Record<string, StoredEvent & { sent: Record<string, unknown> }> {
  return Object.fromEntries(stored.map((row) => [row.event, { ...row, sent: JSON.parse(row.properties) }]))
}

t.test('unmodified @segment/analytics-node: each kind of message is a row of its own', async (t) => {
  const client = new Analytics({ writeKey: PROJECT_KEY, host: url, flushAt: 3 })
  const errors: unknown[] = []
  client.on('error', (error) => { errors.push(error) })

  const timestamp = new Date(Date.now() - 60_000)
  client.track({ userId: 'ann', event: 'Order Paid', properties: { amount: 12.5 }, timestamp, messageId: 'order-1' })
  client.identify({ userId: 'ann', anonymousId: 'device-1', traits: { plan: 'pro' } })
  client.page({ anonymousId: 'device-1', name: 'Pricing', properties: { url: 'https://shop.example/pricing' }, context: { ip: '203.0.113.7' } })
  client.screen({ userId: 'ann', name: 'Home' })
  client.group({ userId: 'ann', groupId: 'acme', traits: { seats: 12 } })
  client.alias({ userId: 'ann', previousId: 'old-ann' })
  await client.closeAndFlush()
  const stored = byName(await takePublishedEvents(connection, clickhouse))
  const updates = await takePersonsUpdates(connection)

  t.same(errors, [])
  t.match(stored, {
    'Order Paid': { distinct_id: 'ann', lib: '@segment/analytics-node', sent: { amount: 12.5 } },
    $identify: { distinct_id: 'ann', sent: { $set: { plan: 'pro' }, $anon_distinct_id: 'device-1' } },
    $pageview: { distinct_id: 'device-1', current_url: 'https://shop.example/pricing', ip: '203.0.113.7', sent: { name: 'Pricing' } },
    $screen: { distinct_id: 'ann', sent: { $screen_name: 'Home' } },
    $groupidentify: { groups: { group: 'acme' }, sent: { $group_type: 'group', $group_key: 'acme', $group_set: { seats: 12 } } },
    $create_alias: { distinct_id: 'ann', sent: { alias: 'old-ann' } }
  })
  const time = stored['Order Paid']?.time_ms
  t.ok(Math.abs(Number(time) - timestamp.getTime()) < 5000, 'corrected by the clock of the sender')
  t.match(updates.map(({ kind }) => kind).sort(), ['group', 'groupType', 'merge', 'merge'])
})

t.test('unmodified @rudderstack/rudder-sdk-node', async (t) => {
  const client = new RudderAnalytics(PROJECT_KEY, { dataPlaneUrl: url, flushAt: 2 })

  client.track({ userId: 'rudder', event: 'Order Paid', properties: { amount: 7 } })
  client.identify({ userId: 'rudder', traits: { plan: 'free' } })
  await new Promise<void>((resolve, reject) => {
    client.flush((error?: Error) => error === undefined || error === null ? resolve() : reject(error))
  })
  const stored: StoredEvent[] = []
  await waitFor(async () => {
    stored.push(...await takePublishedEvents(connection, clickhouse))
    return stored.length >= 2
  })

  t.match(byName(stored), {
    'Order Paid': { distinct_id: 'rudder', sent: { amount: 7 } }, $identify: { distinct_id: 'rudder', sent: { $set: { plan: 'free' } } }
  })
  await takePersonsUpdates(connection)
})

t.test('single messages of a page, with the key in the body, by either name of the path', async (t) => {
  const message = { writeKey: PROJECT_KEY, anonymousId: 'device-2', event: 'Clicked', properties: {}, messageId: 'ajs-next-1' }

  const answers = await Promise.all(['/v1/t', '/v1/track'].map(async (path) =>
    await post(path, message, { headers: { 'content-type': 'text/plain', origin: 'https://shop.example' } })))
  const stored = await takePublishedEvents(connection, clickhouse)

  t.same(await Promise.all(answers.map(async (answer) => await answer.json())), [{ success: true }, { success: true }])
  t.equal(answers[0]?.headers.get('access-control-allow-origin'), 'https://shop.example')
  t.equal(new Set(stored.map(({ uuid }) => uuid)).size, 1, 'the same messageId is the same uuid, which counts once')
})

t.test('the context is kept: as the properties of other SDKs, and what has none as it was sent', async (t) => {
  const context = {
    ip: '2001:db8::1',
    userAgent: 'Firefox',
    locale: 'de-DE',
    library: { name: 'made', version: '1' },
    campaign: { name: 'spring', source: 'mail', vendor: 'x' },
    os: { name: 'iOS', version: '26' },
    network: { wifi: true },
    page: {}
  }
  await post('/v1/batch', { writeKey: PROJECT_KEY, batch: [{ type: 'track', event: 'e', userId: 'u', context, properties: { $os: 'mine' } }] })
  const [stored] = await takePublishedEvents(connection, clickhouse)

  t.same(JSON.parse(stored?.properties ?? ''), {
    $ip: '2001:db8::1',
    $raw_user_agent: 'Firefox',
    $locale: 'de-DE',
    $lib: 'made',
    $lib_version: '1',
    utm_campaign: 'spring',
    utm_source: 'mail',
    $os: 'mine',
    $os_version: '26',
    $segment_context: { campaign: { vendor: 'x' }, network: { wifi: true } }
  })
})

t.test('traits of a user in the context, and the group that a message belongs to', async (t) => {
  const context = { traits: { plan: 'free', seats: 2 }, groupId: 'acme' }
  const batch = [
    { type: 'identify', userId: 'ann', context, traits: { plan: 'pro' } },
    { type: 'track', event: 'in the group', userId: 'ann', context },
    { type: 'track', event: 'in another', userId: 'ann', context, properties: { $groups: { team: 'red' } } },
    { type: 'group', userId: 'ann', groupId: 'globex', context }
  ]
  await post('/v1/batch', { writeKey: PROJECT_KEY, batch })
  const stored = byName(await takePublishedEvents(connection, clickhouse))

  t.same(stored.$identify?.sent, { $set: { plan: 'pro', seats: 2 }, $groups: { group: 'acme' } })
  t.same(stored['in the group']?.sent, { $groups: { group: 'acme' }, $segment_context: { traits: context.traits } })
  t.same(stored['in the group']?.groups, { group: 'acme' })
  t.same(stored['in another']?.groups, { team: 'red' })
  t.match(stored.$groupidentify, { groups: { group: 'globex' }, sent: { $group_key: 'globex', $group_set: {} } })
  await takePersonsUpdates(connection)
})

t.test('the time of sending is that of the body or of each message, and corrects the clock of the device', async (t) => {
  const behind = Date.now() - 60 * 60_000
  const message = (event: string, more: object = {}): object =>
    ({ type: 'track', event, userId: 'ann', originalTimestamp: new Date(behind - 10_000).toISOString(), ...more })
  const sentAt = new Date(behind).toISOString()

  await post('/v1/track', { writeKey: PROJECT_KEY, ...message('single', { sentAt }) })
  await post('/v1/track', { writeKey: PROJECT_KEY, ...message('with an id', { sentAt, messageId: `node-${randomUUID()}` }) })
  await post('/v1/batch', { writeKey: PROJECT_KEY, batch: [message('by itself', { sentAt }), message('unknown')] })
  await post('/v1/batch', { writeKey: PROJECT_KEY, sentAt, batch: [message('by its batch')] })
  const stored = await takePublishedEvents(connection, clickhouse)

  const happenedAt = behind + 60 * 60_000 - 10_000
  const minutes = stored.map(({ event, time_ms: time }) => [event, Math.round((Number(time) - happenedAt) / 60_000)])
  t.same(Object.fromEntries(minutes), { single: 0, 'with an id': 0, 'by itself': 0, 'by its batch': 0, unknown: -60 })
})

t.test('errors are answered, or dropped and counted', async (t) => {
  const authorization = `Basic ${Buffer.from('phc_nobody:').toString('base64')}`
  const wrongKey = await post('/v1/track', { event: 'e', userId: 'u' }, { headers: { authorization } })
  const noKey = await post('/v1/batch', { batch: [] })
  const dropped = await post('/v1/batch', { writeKey: PROJECT_KEY, batch: [{ type: 'delete', userId: 'u' }, { type: 'track', event: 'e' }, 5] })

  t.match([wrongKey.status, await wrongKey.json()], [401, { code: 'invalid_api_key' }])
  t.equal(noKey.status, 401)
  t.equal(dropped.status, 200)
  t.equal(await metric('millrace_ingest_events_dropped_total{reason="unknown_message_type"}'), 2)
  t.equal(await metric('millrace_ingest_events_dropped_total{reason="missing_distinct_id"}'), 1)
  t.same(await takePublishedEvents(connection, clickhouse), [])
})

t.test('an event that cannot be stored fails its request: these clients get no result per event', async (t) => {
  const message = { type: 'track', event: 'e', userId: 'u' }
  const taken = await takeBody(findEvents({ batch: [message, message] }), {
    requestId: 'r', query: {}, isEngage: false, receivedAt: Date.now(), dialect: { name: 'segment', apiKey: 'k', attemptSentAt: null, sdk: '', eventType: '' }
  }, {
    admit: () => ({ project: { id: 1 } as Project, ip: '', visitor: { address: '', userAgent: '' } }),
    takeEvent: () => ({ kind: 'stored', row: {} as unknown as EventRow, updates: [], unmet: null, warnings: [], changedBy: [] }),
    sink: { add () {} }
  })

  // With results, the capture step would wait for one message of them only (`RequestSink.keptEvents`).
  t.match(taken, { received: 2, results: undefined })
})

t.test('a type that is no text costs only its message', async (t) => {
  const message = (type: string): string => `{"type":${type},"userId":"ann","event":"typed"}`
  const types = ['{"toString":1}', `${'['.repeat(20_000)}${']'.repeat(20_000)}`, '"track"']
  const answer = await post('/v1/batch', `{"writeKey":"${PROJECT_KEY}","batch":[${types.map(message).join(',')}]}`)

  t.equal(answer.status, 200)
  t.same((await takePublishedEvents(connection, clickhouse)).map(({ event }) => event), ['typed'])
})

t.end()
