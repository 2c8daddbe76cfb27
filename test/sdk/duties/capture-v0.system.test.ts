/**
 * What a server owes the SDKs that send `/batch/` and `/e/` (harness-cases.ts), each duty a test.
 */
import { gzipSync } from 'node:zlib'
import { PostHog } from 'posthog-node'
import t, { type Test } from 'tap'
import { createPersonalKey } from '../../../api/projects/personal-keys.ts'
import { PROJECT_KEY, startTestIngest } from '../../../ingest/testing/start-test-ingest.ts'
import { type Answer, postTo, startDutyServer, startLossyProxy, type StoredRow } from './duty-server.ts'

t.jobs = 8

const server = await startDutyServer(t)
const { key, uuid } = server
const { key: reader } = await createPersonalKey(server.stack.sql, {
  email: 'admin@millrace.localhost', label: 'reads flags', scopes: ['feature_flag:read'], projectIds: null, expiresAt: null
})
const AT = '2026-11-20T10:00:00.250Z'

function duty (title: string, check: (t: Test, visitor: string) => Promise<void>): void {
  void t.test(title, { buffered: true }, async (t) => { await check(t, server.visitor()) })
}

async function send (events: object[], path = '/batch/'): Promise<Answer> {
  return await server.post(path, { api_key: key, batch: events, sent_at: new Date().toISOString() })
}

/** Sends one event and gives the row of it. */
async function stored (visitor: string, event: object): Promise<StoredRow | undefined> {
  await send([{ event: 'order paid', distinct_id: visitor, ...event }])
  return (await server.storedOf(visitor))[0]
}

/** As pages send: everything about an event among its properties. */
async function sendPageEvent (visitor: unknown, token: string): Promise<Answer> {
  return await server.post('/e/', [{ event: 'order paid', properties: { token, distinct_id: visitor } }])
}

duty('name and distinct id are taken from beside the properties', async (t, visitor) => {
  t.match(await stored(visitor, {}), { event: 'order paid', distinct_id: visitor })
})

duty('the distinct id is taken from among the properties, where pages have it', async (t, visitor) => {
  t.match(await sendPageEvent(visitor, key), { status: 200 })
  t.match(await server.storedOf(visitor), [{ event: 'order paid', distinct_id: visitor }])
})

duty('an event is stored under the uuid that it brings', async (t, visitor) => {
  const id = uuid()
  t.equal((await stored(visitor, { uuid: id }))?.uuid, id)
})

duty('name and version of the SDK are stored with the event', async (t, visitor) => {
  const sdk = { $lib: 'posthog-made', $lib_version: '1.2.3' }
  t.match((await stored(visitor, { properties: sdk }))?.properties, sdk)
})

duty('a distinct id that is a number is stored as its text', async (t) => {
  await send([{ event: 'order paid', distinct_id: 70_000_001 }])
  t.match(await server.storedOf('70000001'), [{ distinct_id: '70000001' }])
})

duty('a number as distinct id of a page is stored as its text', async (t) => {
  await sendPageEvent(70_000_002, key)
  t.match(await server.storedOf('70000002'), [{ distinct_id: '70000002' }])
})

duty('the key of a batch says whose its events are, and one that nobody has is 401', async (t, visitor) => {
  t.match(await send([{ event: 'order paid', distinct_id: visitor }]), { status: 200 })
  const refused = await server.post('/batch/', { api_key: 'phc_nobody', batch: [{ event: 'foreign', distinct_id: visitor }] })
  t.match(refused, { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await server.storedOf(visitor), { length: 1, 0: { event: 'order paid' } })
})

duty('the key of a page is taken from its events, and one that nobody has is 401', async (t, visitor) => {
  t.match(await sendPageEvent(visitor, 'phc_nobody'), { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await sendPageEvent(visitor, key), { status: 200 })
  t.match(await server.storedOf(visitor), { length: 1 })
})

duty('properties of every shape are stored as they were sent', async (t, visitor) => {
  const properties = {
    text: '✓ "quoted"\n', amount: 12.5, none: null, yes: true, list: [1, ['a', {}]], nested: { deep: { er: [] } }, '': 0
  }
  t.match((await stored(visitor, { properties }))?.properties, properties)
})

duty('an event has the time that it brings', async (t, visitor) => {
  t.equal((await stored(visitor, { timestamp: AT }))?.time, Date.parse(AT))
})

duty('a time of another zone is stored as its instant', async (t, visitor) => {
  t.equal((await stored(visitor, { timestamp: '2026-11-20T15:30:00.250+05:30' }))?.time, Date.parse(AT))
})

/** The stock client, which sends again what was not answered, and the times that it tried. */
async function throughLostAnswers (
  t: Test, visitor: string, statuses: number[]
): Promise<{ rows: StoredRow[], attempts: number }> {
  const proxy = await startLossyProxy(t, server.url, statuses)
  const client = new PostHog(key, { host: proxy.url, flushAt: 2, fetchRetryDelay: 20, fetchRetryCount: 3 })
  client.on('error', () => {})
  for (const event of ['first', 'second']) client.capture({ distinctId: visitor, event, timestamp: new Date(AT) })
  await client.shutdown()
  const attempts = proxy.passed.filter(({ path }) => path.startsWith('/batch')).length
  return { rows: await server.storedOf(visitor), attempts }
}

for (const status of [408, 500, 502, 503, 504]) {
  duty(`events that posthog-node sends again because a proxy said ${status} are stored once`, async (t, visitor) => {
    const { rows, attempts } = await throughLostAnswers(t, visitor, [status])
    t.ok(attempts >= 2, `${attempts} attempts: how the client divides its queue is its own affair`)
    t.same(rows.map(({ event }) => event).sort(), ['first', 'second'])
  })
}

duty('events that posthog-node gave up after its last try are stored once, when they arrived', async (t, visitor) => {
  const { rows, attempts } = await throughLostAnswers(t, visitor, [503, 503, 503, 503])
  t.ok(attempts >= 4, `${attempts} attempts`)
  t.same(rows.map(({ event }) => event).sort(), ['first', 'second'])
})

for (const [name, status, path, body] of [
  ['a body that nobody can read is 400 for good', 400, '/batch/', '{"batch": ['],
  ['an unknown key is 401 for good', 401, '/batch/', { api_key: 'phc_nobody', batch: [{ event: 'e', distinct_id: 'd' }] }],
  ['a personal key that may not capture is 403 for good', 403, '/batch/',
    { api_key: reader, project_id: 1, batch: [{ event: 'e', distinct_id: 'd' }] }],
  ['a body above 20 MB is 413 for good', 413, '/batch/', { api_key: key, batch: [{ event: 'e', distinct_id: 'd', properties: { text: 'x'.repeat(21e6) } }] }]
] as const) {
  duty(name, async (t) => {
    for (let attempt = 1; attempt <= 2; attempt++) {
      const { status: answered, headers, body: error } = await server.post(path, body)
      t.equal(answered, status)
      t.match(error, { type: String, code: String, detail: String })
      t.equal(headers.get('retry-after'), null)
    }
    t.equal((await send([{ event: 'e', distinct_id: 'after a refusal' }])).status, 200)
  })
}

duty('events that cannot be stored or exceed a limit are refused with the seconds to wait', async (t) => {
  const full = await startTestIngest(t, { MILLRACE_SPOOL_MAX_BYTES: '1' })
  const limited = await startTestIngest(t, { MILLRACE_INGEST_RATE_LIMIT: '1' })
  const body = { api_key: PROJECT_KEY, batch: Array.from({ length: 50 }, () => ({ event: 'e', distinct_id: 'd' })) }
  await full.nats.kill('SIGSTOP')
  const unavailable = await postTo(full.url, '/batch/', body)
  await full.nats.kill('SIGCONT')
  await postTo(limited.url, '/batch/', body)
  const throttled = await postTo(limited.url, '/batch/', body)

  t.same([unavailable.status, throttled.status], [503, 429])
  for (const { headers } of [unavailable, throttled]) t.match(headers.get('retry-after'), /^[1-9]\d*$/)
})

duty('events with distinct uuids are each stored', async (t, visitor) => {
  await send(['a', 'b', 'c'].map((event) => ({ event, uuid: uuid(), distinct_id: visitor })))
  t.equal(new Set((await server.storedOf(visitor)).map(({ uuid }) => uuid)).size, 3)
})

duty('an event that comes again with its uuid is stored once', async (t, visitor) => {
  const event = { event: 'order paid', uuid: uuid(), distinct_id: visitor, timestamp: AT }
  for (const path of ['/batch/', '/batch', '/capture/']) t.equal((await send([event], path)).status, 200)
  t.match(await server.storedOf(visitor), { length: 1, 0: { uuid: event.uuid } })
})

duty('an event that comes again keeps the time of its first try', async (t, visitor) => {
  const event = { event: 'order paid', uuid: uuid(), distinct_id: visitor, timestamp: AT }
  await send([event])
  await server.post('/batch/', { api_key: key, batch: [event], sent_at: new Date(Date.now() + 60_000).toISOString() })
  t.match(await server.storedOf(visitor), { length: 1, 0: { uuid: event.uuid, time: Date.parse(AT) } })
})

duty('a batch that comes again is stored once, each event with its uuid and time', async (t, visitor) => {
  const events = Array.from({ length: 20 }, (_, i) =>
    ({ event: 'order paid', uuid: uuid(), distinct_id: visitor, timestamp: new Date(Date.parse(AT) + i).toISOString() }))
  for (let attempt = 1; attempt <= 3; attempt++) await send(events)
  const rows = await server.storedOf(visitor)
  t.same(rows.map(({ uuid, time }) => [uuid, time]), events.map(({ uuid, timestamp }) => [uuid, Date.parse(timestamp)]))
})

duty('a uuid that is in a batch twice is stored once', async (t, visitor) => {
  const event = { event: 'order paid', uuid: uuid(), distinct_id: visitor, timestamp: AT }
  await send([event, event, event])
  t.match(await server.storedOf(visitor), { length: 1, 0: { uuid: event.uuid } })
})

duty('events that are alike in all but the uuid are each stored', async (t, visitor) => {
  await send([1, 2].map(() => ({ event: 'order paid', uuid: uuid(), distinct_id: visitor, timestamp: AT, properties: { amount: 5 } })))
  t.match(await server.storedOf(visitor), { length: 2 })
})

duty('a gzip body is read, declared by its header, by the query, or not at all', async (t, visitor) => {
  for (const [path, headers] of [['/batch/', { 'content-encoding': 'gzip' }], ['/batch/?compression=gzip-js', {}], ['/batch/', {}]] as const) {
    const batch = [{ event: 'order paid', distinct_id: visitor }]
    t.match(await server.post(path, { api_key: key, batch }, { headers, encode: gzipSync }), { status: 200 })
  }
  t.match(await server.storedOf(visitor), { length: 3 })
})

duty('a batch keeps its good events without the bad one between them', async (t, visitor) => {
  t.match(await send([{ event: 'a', distinct_id: visitor }, { event: '', distinct_id: visitor }, { event: 'b', distinct_id: visitor }]), { status: 200 })
  t.same((await server.storedOf(visitor)).map(({ event }) => event).sort(), ['a', 'b'])
})

duty('a batch without events is answered, and nothing stored', async (t, visitor) => {
  t.match(await send([]), { status: 200 })
  t.same(await server.storedOf(visitor), [])
})

duty('as many events as one batch has are stored, in their order', async (t, visitor) => {
  const names = Array.from({ length: 250 }, (_, i) => `step ${i}`)
  const timeOf = (i: number): string => new Date(Date.parse(AT) + i).toISOString()
  await send(names.map((event, i) => ({ event, distinct_id: visitor, timestamp: timeOf(i) })))
  t.same((await server.storedOf(visitor)).map(({ event }) => event), names)
})

duty('events of language models are stored by their own path', async (t, visitor) => {
  t.match(await send([{ event: '$ai_generation', distinct_id: visitor, properties: { $ai_model: 'm' } }], '/i/v0/ai/batch/'), { status: 200 })
  t.match(await server.storedOf(visitor), [{ event: '$ai_generation', properties: { $ai_model: 'm' } }])
})

duty('events of language models among others are stored by the path of these', async (t, visitor) => {
  t.match(await send(['$ai_trace', 'order paid'].map((event) => ({ event, distinct_id: visitor }))), { status: 200 })
  t.same((await server.storedOf(visitor)).map(({ event }) => event).sort(), ['$ai_trace', 'order paid'])
})

duty('an event of a language model without uuid gets one', async (t, visitor) => {
  await send([{ event: '$ai_span', distinct_id: visitor }], '/i/v0/ai/batch/')
  t.match((await server.storedOf(visitor))[0]?.uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-[4-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

duty('an event of a language model keeps its uuid', async (t, visitor) => {
  const event = { event: '$ai_span', distinct_id: visitor, uuid: uuid() }
  for (let attempt = 1; attempt <= 2; attempt++) await send([event], '/i/v0/ai/batch/')
  t.match(await server.storedOf(visitor), { length: 1, 0: { uuid: event.uuid } })
})

duty('the time of an event of a language model in another zone is stored as its instant', async (t, visitor) => {
  await send([{ event: '$ai_span', distinct_id: visitor, timestamp: '2026-11-20T02:00:00.250-08:00' }], '/i/v0/ai/batch/')
  t.match(await server.storedOf(visitor), [{ time: Date.parse(AT) }])
})

t.end()
