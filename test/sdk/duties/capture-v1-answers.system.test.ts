/** What a server owes the clients of Capture V1 that read its answers and send again, each duty a test. */
import { PostHog } from 'posthog-node'
import t, { type Test } from 'tap'
import { PROJECT_KEY, startTestIngest } from '../../../ingest/testing/start-test-ingest.ts'
import { type Answer, type LossyProxy, postTo, startDutyServer, startLossyProxy, type StoredRow } from './duty-server.ts'

const PATH = '/i/v1/analytics/events'
const AT = '2026-11-20T10:00:00.250Z'
const OK = { result: 'ok' }

t.jobs = 8
process.env.POSTHOG_CAPTURE_MODE = 'v1'

const server = await startDutyServer(t)
const { uuid } = server

type Event = Record<string, unknown> & { uuid: string }

function duty (title: string, check: (t: Test, visitor: string) => Promise<void>): void {
  void t.test(title, { buffered: true }, async (t) => { await check(t, server.visitor()) })
}

function event (visitor: string, change: object = {}): Event {
  const options = { disable_skew_correction: true }
  return { event: 'order paid', uuid: uuid(), distinct_id: visitor, timestamp: AT, options, properties: { amount: 5 }, ...change }
}

interface Target {
  url: string
  key: string
}

async function send (
  batch: unknown, headers: Record<string, string> = {}, { url, key }: Target = server
): Promise<Answer> {
  return await postTo(url, PATH, { created_at: AT, batch }, {
    headers: {
      authorization: `Bearer ${key}`,
      'posthog-attempt': '1',
      'posthog-request-id': 'request 1',
      'posthog-request-timestamp': new Date().toISOString(),
      ...headers
    }
  })
}

function results (events: Event[], result: object = OK): object {
  return Object.fromEntries(events.map(({ uuid }) => [uuid, result]))
}

function uuidsOf (rows: { uuid: string }[]): string[] {
  return rows.map(({ uuid }) => uuid).sort()
}

/** What the stock client sends in mode V1 through a proxy that loses its first answers. */
async function sendBySdk (
  t: Test, visitor: string, lost: number[], count = 2
): Promise<{ rows: StoredRow[], sent: LossyProxy['passed'] }> {
  const proxy = await startLossyProxy(t, server.url, lost)
  const client = new PostHog(server.key, {
    host: proxy.url, flushAt: 5, fetchRetryDelay: 20, fetchRetryCount: 3, disableCompression: true
  })
  client.on('error', () => {})
  for (let i = 0; i < count; i++) {
    client.capture({ distinctId: visitor, event: `step ${i}`, timestamp: new Date(AT) })
    if (i % 5 === 4) await client.flush()
  }
  await client.shutdown()
  return { rows: await server.storedOf(visitor), sent: proxy.passed.filter(({ path }) => path === PATH) }
}

function headersOf (sent: LossyProxy['passed'], name: string): (string | undefined)[] {
  return sent.map(({ headers }) => headers[name])
}

duty('V1: several events of a batch are each answered and stored', async (t, visitor) => {
  const events = Array.from({ length: 30 }, () => event(visitor))
  t.match(await send(events), { status: 200, body: { results: results(events) } })
  t.same(uuidsOf(await server.storedOf(visitor)), uuidsOf(events))
})

duty('V1: a batch is refused as one without a good key, however many events it has', async (t, visitor) => {
  t.match(await send([event(visitor), event(visitor)], { authorization: 'Bearer phc_nobody' }), { status: 401 })
  t.same(await server.storedOf(visitor), [])
})

duty('V1: batches that posthog-node sends one after the other are each stored', async (t, visitor) => {
  const { rows, sent } = await sendBySdk(t, visitor, [], 12)
  t.equal(rows.length, 12)
  t.ok(sent.length >= 3)
})

duty('V1: a batch without events is refused, and nothing stored', async (t, visitor) => {
  t.match(await send([]), { status: 400, body: { code: 'empty_batch' } })
  t.same(await server.storedOf(visitor), [])
})

duty('V1: the time at which a batch was made changes no time of an event', async (t, visitor) => {
  await server.post(PATH, { created_at: '2020-01-01T00:00:00Z', batch: [event(visitor)] }, { headers: { authorization: `Bearer ${server.key}` } })
  t.match(await server.storedOf(visitor), [{ time: Date.parse(AT) }])
})

duty('V1: events with distinct uuids are each stored', async (t, visitor) => {
  const events = ['a', 'b', 'c'].map((name) => event(visitor, { event: name }))
  await send(events)
  t.same(uuidsOf(await server.storedOf(visitor)), uuidsOf(events))
})

duty('V1: events that are alike in all but the uuid are each stored', async (t, visitor) => {
  await send([event(visitor), event(visitor)])
  t.match(await server.storedOf(visitor), { length: 2 })
})

duty('V1: an event that comes again with its uuid is answered ok and stored once', async (t, visitor) => {
  const sent = event(visitor)
  for (const attempt of ['1', '2', '3']) {
    t.same((await send([sent], { 'posthog-attempt': attempt })).body, { results: results([sent]) })
  }
  t.same(uuidsOf(await server.storedOf(visitor)), [sent.uuid])
})

duty('V1: an event that comes again keeps its time, whatever the time of the attempt', async (t, visitor) => {
  const sent = event(visitor)
  for (const hour of [0, 1]) await send([sent], { 'posthog-request-timestamp': new Date(Date.now() - hour * 3_600_000).toISOString() })
  t.match(await server.storedOf(visitor), { length: 1, 0: { time: Date.parse(AT) } })
})

duty('V1: a batch that comes again is stored once, each event with its uuid and time', async (t, visitor) => {
  const times = Array.from({ length: 20 }, (_, i) => Date.parse(AT) + i)
  const events = times.map((time) => event(visitor, { timestamp: new Date(time).toISOString() }))
  for (let attempt = 1; attempt <= 3; attempt++) await send(events, { 'posthog-attempt': String(attempt) })
  const rows = await server.storedOf(visitor)
  t.same(rows.map(({ uuid, time }) => [uuid, time]), events.map(({ uuid }, i) => [uuid, times[i]]))
})

duty('V1: a batch with a uuid twice cannot be answered by uuid, and is refused', async (t, visitor) => {
  const sent = event(visitor)
  t.match(await send([sent, event(visitor), { ...sent, uuid: sent.uuid.toUpperCase() }]), { status: 400, body: { code: 'duplicate_uuid' } })
  t.same(await server.storedOf(visitor), [])
})

duty('V1: the first attempt of posthog-node is attempt 1, and stored', async (t, visitor) => {
  const { rows, sent } = await sendBySdk(t, visitor, [])
  t.same(headersOf(sent, 'posthog-attempt'), ['1'])
  t.equal(rows.length, 2)
})

duty('V1: three attempts of posthog-node are stored once', async (t, visitor) => {
  const { rows, sent } = await sendBySdk(t, visitor, [503, 500])
  t.same(headersOf(sent, 'posthog-attempt'), ['1', '2', '3'])
  t.equal(rows.length, 2)
})

duty('V1: each attempt is answered with the id of its request', async (t, visitor) => {
  const sent = event(visitor)
  for (const attempt of ['1', '2']) {
    const { headers } = await send([sent], { 'posthog-attempt': attempt, 'posthog-request-id': 'the same' })
    t.equal(headers.get('posthog-request-id'), 'the same')
  }
})

duty('V1: requests at the same time are each answered with their own id', async (t, visitor) => {
  const ids = Array.from({ length: 20 }, (_, i) => `request ${i}`)
  const answers = await Promise.all(ids.map(async (id) => await send([event(visitor)], { 'posthog-request-id': id })))
  t.same(answers.map(({ headers }) => headers.get('posthog-request-id')), ids)
})

duty('V1: the clock is corrected by the time of the attempt that arrived', async (t, visitor) => {
  const happened = Date.now() - 60_000
  const sent = event(visitor, { timestamp: new Date(happened - 3_600_000).toISOString(), options: {} })
  await send([sent], { 'posthog-attempt': '4', 'posthog-request-timestamp': new Date(Date.now() - 3_600_000).toISOString() })
  t.ok(Math.abs(Number((await server.storedOf(visitor))[0]?.time) - happened) < 20_000)
})

duty('V1: an answer of 200 names each event by its uuid as it was sent', async (t, visitor) => {
  const events = [event(visitor), event(visitor, { uuid: uuid().toUpperCase() })]
  t.same(Object.keys((await send(events)).body.results).sort(), uuidsOf(events))
})

duty('V1: a stored event is answered with ok', async (t, visitor) => {
  const sent = event(visitor)
  t.same((await send([sent])).body, { results: { [sent.uuid]: OK } })
  t.same(uuidsOf(await server.storedOf(visitor)), [sent.uuid])
})

duty('V1: an answer with nothing to retry has no Retry-After', async (t, visitor) => {
  t.equal((await send([event(visitor)])).headers.get('retry-after'), null)
})

duty('V1: an answer with dropped events alone has no Retry-After', async (t, visitor) => {
  const { status, headers, body } = await send([event(visitor, { event: '' }), event(visitor)])
  t.same([status, headers.get('retry-after'), Object.values(body.results).map((each: any) => each.result)], [200, null, ['drop', 'ok']])
})

duty('V1: the id of a request is in its answer, and pages may read it', async (t, visitor) => {
  const { headers } = await send([event(visitor)], { 'posthog-request-id': 'abc', origin: 'https://shop.example' })
  t.equal(headers.get('posthog-request-id'), 'abc')
  t.match(headers.get('access-control-expose-headers'), /posthog-request-id/)
})

for (const status of [408, 500, 503, 504]) {
  duty(`V1: events that posthog-node sends again because a proxy said ${status} are stored once`, async (t, visitor) => {
    const { rows, sent } = await sendBySdk(t, visitor, [status])
    t.same([sent.length, rows.length], [2, 2])
  })
}

duty('V1: events that posthog-node gave up after its last try are stored once, when they arrived', async (t, visitor) => {
  const { rows, sent } = await sendBySdk(t, visitor, [503, 503, 503, 503])
  t.same([sent.length, rows.length], [4, 2])
})

/** A full ingest and one that has taken too much: what they answer. */
async function refusedForNow (t: Test): Promise<Answer[]> {
  const [full, limited] = await Promise.all([
    startTestIngest(t, { MILLRACE_SPOOL_MAX_BYTES: '1' }), startTestIngest(t, { MILLRACE_INGEST_RATE_LIMIT: '1' })
  ])
  const events = Array.from({ length: 50 }, () => event('too much'))
  await full.nats.kill('SIGSTOP')
  const unavailable = await send(events, {}, { url: full.url, key: PROJECT_KEY })
  await full.nats.kill('SIGCONT')
  await send(events, {}, { url: limited.url, key: PROJECT_KEY })
  return [unavailable, await send(events, {}, { url: limited.url, key: PROJECT_KEY })]
}

duty('V1: events that cannot be stored or exceed a limit are refused with a retry time', async (t) => {
  const refused = await refusedForNow(t)
  t.same(refused.map(({ status }) => status), [503, 429])
  t.same(refused.map(({ headers }) => headers.has('retry-after')), [true, true])
})

duty('V1: the time to come back is in whole seconds, as clients read it', async (t) => {
  for (const { headers } of await refusedForNow(t)) t.match(headers.get('retry-after'), /^[1-9]\d*$/)
})

/** Refusals that no other attempt changes. */
const FOR_GOOD: [number, string, () => unknown, Record<string, string>][] = [
  [400, 'a body that cannot be answered', () => 'text', {}],
  [401, 'an unknown key', () => [event('nobody')], { authorization: 'Bearer phc_nobody' }],
  [413, 'a body above 20 MB', () => [event('nobody', { properties: { text: 'x'.repeat(21e6) } })], {}],
  [400, 'a body in an encoding that nobody reads', () => '\xff\x06\x00\x00sNaPpY', { 'content-encoding': 'snappy' }]
]

for (const [status, what, batch, headers] of FOR_GOOD) {
  duty(`V1: ${what} is ${status} at each attempt`, async (t) => {
    for (const attempt of ['1', '2']) {
      t.match(await send(batch(), { ...headers, 'posthog-attempt': attempt }), { status, body: { type: String, code: String, detail: String } })
    }
  })
}

duty('V1: a refusal for good has no Retry-After', async (t) => {
  for (const [, what, batch, headers] of FOR_GOOD) t.equal((await send(batch(), headers)).headers.get('retry-after'), null, what)
})

duty('V1: a refusal of no special kind is JSON, too, and without Retry-After', async (t) => {
  const refused = await send([event('nobody')], { 'posthog-request-timestamp': 'soon' })
  t.match(refused, { status: 400, body: { type: 'validation_error', code: 'invalid_timestamp', detail: String, attr: String } })
  t.equal(refused.headers.get('retry-after'), null)
})

duty('V1: posthog-node sends nothing again when all is stored', async (t, visitor) => {
  const { rows, sent } = await sendBySdk(t, visitor, [])
  t.same([sent.length, rows.length], [1, 2])
})

duty('V1: each of many stored events is answered with ok, in a large body, too', async (t, visitor) => {
  const events = Array.from({ length: 300 }, () => event(visitor, { properties: { text: 'x'.repeat(4000) } }))
  t.same((await send(events)).body.results, results(events))
})

duty('V1: an event that was dropped is dropped again, with its reason, and never stored', async (t, visitor) => {
  const sent = event(visitor, { timestamp: 'yesterday' })
  for (const attempt of ['1', '2']) {
    t.same((await send([sent], { 'posthog-attempt': attempt })).body.results[sent.uuid], { result: 'drop', details: 'invalid_event_timestamp' })
  }
  t.same(await server.storedOf(visitor), [])
})

duty('V1: an event is answered with one of four words, and with no other', async (t, visitor) => {
  const events = [event(visitor), event(visitor, { event: 7 }), event('anonymous'), event(visitor, { properties: [] }), event(visitor, { options: { of_tomorrow: 1 } })]
  const words = Object.values((await send(events)).body.results).map((each: any) => each.result)
  t.equal(words.length, events.length)
  t.same(words.filter((word) => !['ok', 'warning', 'drop', 'retry'].includes(word)), [])
})

duty('V1: events that are ok and dropped in one batch leave nothing to send again', async (t, visitor) => {
  const events = [event(visitor), event(visitor, { distinct_id: '' }), event(visitor)]
  const { headers, body } = await send(events)
  t.same([headers.get('retry-after'), events.map(({ uuid }) => body.results[uuid].result)], [null, ['ok', 'drop', 'ok']])
})

t.end()
