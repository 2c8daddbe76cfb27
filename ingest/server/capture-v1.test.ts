/** What a server of capture V1 owes its clients (docs/reference/contract/sdks.md 1.9), each duty a test. */
import { gzipSync, brotliCompressSync, zstdCompressSync, deflateSync } from 'node:zlib'
import { PostHog } from 'posthog-node'
import t from 'tap'
import type { EventResult } from '../capture/take-parsed-body.ts'
import type { EventRow, RequestContext } from '../event.ts'
import { RequestSink } from '../capture/request-sink.ts'
import type { Quarantine } from '../publish/quarantine.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import type { EventPartitions } from '../publish/event-partitions.ts'
import type { PersonsPartitions } from '../publish/persons-partitions.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { takeMessages, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const PATH = '/i/v1/analytics/events'
const clickhouse = await createTestClickHouse(t)
const { url, connection, metric } = await startTestIngest(t)

let made = 0
function uuid (): string {
  return `01a203e1-1cb1-7e98-bb82-${(++made).toString(16).padStart(12, '0')}`
}

function buildEvent (change: Record<string, unknown> = {}): Record<string, unknown> & { uuid: string } {
  return {
    event: 'order paid', uuid: uuid(), distinct_id: 'ann', timestamp: new Date().toISOString(), options: {}, properties: { amount: 5 }, ...change
  }
}

interface Answer {
  status: number
  headers: Headers
  body: any
}

async function send (
  batch: unknown, headers: Record<string, string> = {}, encode?: (json: string) => Uint8Array, more: object = {}
): Promise<Answer> {
  const json = JSON.stringify({ created_at: new Date().toISOString(), batch, ...more })
  const response = await fetch(url + PATH, {
    method: 'POST',
    body: encode === undefined ? json : Buffer.from(encode(json)),
    headers: {
      authorization: `Bearer ${PROJECT_KEY}`,
      'content-type': 'application/json',
      'posthog-sdk-info': 'posthog-made/1.2.3',
      'posthog-attempt': '1',
      'posthog-request-id': 'request-1',
      'posthog-request-timestamp': new Date().toISOString(),
      ...headers
    }
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

t.test('unmodified posthog-node in mode v1: every event is stored once, as by the older path', async (t) => {
  process.env.POSTHOG_CAPTURE_MODE = 'v1'
  t.teardown(() => { delete process.env.POSTHOG_CAPTURE_MODE })
  const paths: string[] = []
  const errors: unknown[] = []
  const client = new PostHog(PROJECT_KEY, {
    host: url,
    flushAt: 20,
    fetch: async (input, init) => {
      paths.push(new URL(input).pathname)
      return await fetch(input, init as RequestInit)
    }
  })
  client.on('error', (error) => { errors.push(error) })

  for (let i = 0; i < 100; i++) client.capture({ distinctId: `node-${i}`, event: 'order paid', properties: { i, $session_id: 's' } })
  client.identify({ distinctId: 'node-0', properties: { plan: 'pro' } })
  await client.shutdown()
  const stored = await takePublishedEvents(connection, clickhouse)

  t.same(new Set(paths), new Set([PATH]))
  t.same(errors, [])
  t.equal(stored.length, 101)
  t.equal(new Set(stored.map(({ uuid }) => uuid)).size, 101)
  const paid = stored.filter(({ event }) => event === 'order paid').map(({ properties }) => JSON.parse(properties))
  t.same(paid.map(({ i }) => i).sort((a, b) => a - b), Array.from({ length: 100 }, (_, i) => i))
  t.match(paid[0], { $lib: 'posthog-node', $lib_version: /^5\./, $session_id: 's' })
  t.match(JSON.parse(stored.find(({ event }) => event === '$identify')?.properties ?? '{}'), { $set: { plan: 'pro' } })
})

t.test('the answer names each event by its uuid as it was sent, and echoes the id of the request', async (t) => {
  const events = [buildEvent(), buildEvent({ uuid: uuid().toUpperCase() })]

  const { status, headers, body } = await send(events, { 'posthog-request-id': 'abc' })

  t.equal(status, 200)
  t.same(body, { results: Object.fromEntries(events.map(({ uuid }) => [uuid, { result: 'ok' }])) })
  t.equal(headers.get('posthog-request-id'), 'abc')
  t.equal(headers.get('retry-after'), null)
  await takePublishedEvents(connection, clickhouse)
})

t.test('a faulty event is dropped with the reason, its neighbours are stored', async (t) => {
  const cases: [Record<string, unknown>, string][] = [
    [{ event: '' }, 'missing_event_name'],
    [{ event: 5 }, 'missing_event_name'],
    [{ event: '😀'.repeat(201) }, 'event_name_too_long'],
    [{ distinct_id: ' ' }, 'missing_distinct_id'],
    [{ distinct_id: undefined }, 'missing_distinct_id'],
    [{ distinct_id: '😀'.repeat(201) }, 'distinct_id_too_large'],
    [{ timestamp: 'yesterday' }, 'invalid_event_timestamp'],
    [{ timestamp: undefined }, 'invalid_event_timestamp'],
    [{ timestamp: '2026-11-21 10:00' }, 'invalid_event_timestamp'],
    [{ options: { cookieless_mode: 'yes' } }, 'invalid_options'],
    [{ options: [] }, 'invalid_options'],
    [{ properties: 'none' }, 'malformed_event_properties']
  ]
  const events = cases.map(([change]) => buildEvent(change))
  // 400 UTF-16 units each.
  const good = buildEvent({ distinct_id: '😀'.repeat(200), event: '🚀'.repeat(200) })

  const { status, body } = await send([...events, good])
  const stored = await takePublishedEvents(connection, clickhouse)

  t.equal(status, 200)
  t.same(events.map(({ uuid }) => body.results[uuid]), cases.map(([, details]) => ({ result: 'drop', details })))
  t.same(body.results[good.uuid], { result: 'ok' })
  t.match(stored, [{ uuid: good.uuid, distinct_id: good.distinct_id, event: good.event }])
  t.equal(stored.length, 1)
  t.equal(await metric('millrace_ingest_events_dropped_total{reason="invalid_timestamp"}'), 3)
})

t.test('a body that cannot be answered by uuid is refused as a whole, and nothing of it stored', async (t) => {
  const event = buildEvent()
  const cases: [unknown, string][] = [
    [[], 'empty_batch'], [undefined, 'invalid_uuid'], ['text', 'invalid_batch'],
    [[buildEvent(), { ...event, uuid: 'x' }], 'invalid_uuid'], [[event, { ...event, uuid: event.uuid.toUpperCase() }], 'duplicate_uuid']
  ]

  for (const [batch, code] of cases) {
    const { status, headers, body } = await send(batch)
    t.match({ status, code: body.code, id: headers.get('posthog-request-id') }, { status: 400, code, id: 'request-1' })
  }
  t.same(await takePublishedEvents(connection, clickhouse), [])
})

t.test('an encoding that a proxy took off, header left, harms neither a small body nor a large one', async (t) => {
  for (const encoding of ['br', 'zstd', 'deflate', 'gzip']) {
    for (const count of [1, 300]) {
      const events = Array.from({ length: count }, () => buildEvent({ properties: { text: 'x'.repeat(2000) } }))
      t.equal((await send(events, { 'content-encoding': encoding })).status, 200, `${encoding}, ${count} events`)
      t.equal((await takePublishedEvents(connection, clickhouse)).length, count)
    }
  }
})

t.test('an id that stands for nobody is stored without a person, with a warning', async (t) => {
  const events = ['anonymous', ' NULL', '00000000-0000-0000-0000-000000000000'].map((id) => buildEvent({ distinct_id: id, properties: { $set: { a: 1 } } }))

  const { body } = await send(events)
  const stored = await takePublishedEvents(connection, clickhouse)

  t.same(Object.values(body.results), Array(3).fill({ result: 'warning', details: 'person_processing_disabled' }))
  t.same(stored.map(({ properties }) => JSON.parse(properties).$process_person_profile), [false, false, false])
})

t.test('fields beside the properties become the properties that everybody else sends', async (t) => {
  const options = { process_person_profile: false, product_tour_id: 'tour', disable_skew_correction: true, of_tomorrow: 1 }
  await send([buildEvent({ session_id: 's', window_id: 'w', options, properties: { $lib: 'mine', a: 1 } })])
  const [stored] = await takePublishedEvents(connection, clickhouse)

  t.same(JSON.parse(stored?.properties ?? ''), {
    a: 1,
    $lib: 'posthog-made',
    $lib_version: '1.2.3',
    $session_id: 's',
    $window_id: 'w',
    $ignore_sent_at: true,
    $process_person_profile: false,
    $product_tour_id: 'tour'
  })
})

t.test('a wrong clock is corrected by the time of the attempt, unless the event says not to', async (t) => {
  const HOUR = 3_600_000
  const happened = Date.now() - 60_000
  const clock = (time: number): string => new Date(time - HOUR).toISOString()
  await send([
    buildEvent({ distinct_id: 'corrected', timestamp: clock(happened) }),
    buildEvent({ distinct_id: 'as it is', timestamp: clock(happened), options: { disable_skew_correction: true } })
  ], { 'posthog-request-timestamp': clock(Date.now()) })
  const stored = await takePublishedEvents(connection, clickhouse)

  const timeOf = (id: string): number => Number(stored.find((row) => row.distinct_id === id)?.time_ms)
  t.ok(Math.abs(timeOf('corrected') - happened) < 5000)
  t.equal(timeOf('as it is'), happened - HOUR)
})

t.test('a body in each of the encodings is read', async (t) => {
  const encodings: Record<string, (json: string) => Uint8Array> = {
    gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync
  }
  for (const [encoding, encode] of Object.entries(encodings)) {
    t.equal((await send([buildEvent()], { 'content-encoding': encoding }, encode)).status, 200, encoding)
  }
  t.equal((await takePublishedEvents(connection, clickhouse)).length, 4)
})

t.test('a large body is answered event by event, too, and stored once when it comes twice', async (t) => {
  const events = Array.from({ length: 300 }, () => buildEvent({ properties: { text: 'x'.repeat(2000) } }))
  events[7]!.timestamp = 'never'

  const { status, body } = await send(events)
  const stored = await takePublishedEvents(connection, clickhouse)

  t.equal(status, 200)
  t.equal(Object.keys(body.results).length, 300)
  t.same(body.results[events[7]!.uuid], { result: 'drop', details: 'invalid_event_timestamp' })
  t.equal(stored.length, 299)
  t.match(await send([...events, events[0]]), { status: 400, body: { code: 'duplicate_uuid' } })
})

t.test('the client is asked to resend exactly those events whose message could not be stored', async (t) => {
  const persons = { append: async () => {}, isAnnounced: () => true } as unknown as PersonsPartitions
  const messages = [Promise.resolve(), Promise.reject(new Error('the stream is gone')), Promise.resolve()]
  const partitions = { append: (row: { at: number }) => messages[row.at] } as unknown as EventPartitions
  const result = { uuid: '', drop: null }
  const takeAll = (sink: RequestSink, ...at: number[]): EventResult[] => at.map((at) => {
    sink.add({ kind: 'stored', row: { at } as unknown as EventRow, updates: [], unmet: null, warnings: [], changedBy: [] }, {} as unknown as RequestContext)
    return { ...result, messages: sink.messages }
  })

  const quarantine = {} as unknown as Quarantine
  const some = new RequestSink({ partitions, persons, quarantine })
  const kept = await some.keptEvents(takeAll(some, 0, 0, 1, 1, 2, 2, 2))
  const none = new RequestSink({ partitions, persons, quarantine })

  // The first event after the lost message is sent again for nothing, and found to be a duplicate.
  t.same(kept.map(({ isLost }) => isLost), [false, false, true, true, true, false, false])
  await t.rejects(none.keptEvents(takeAll(none, 1, 1)), { message: 'the stream is gone' }, 'then the answer is 503')
})

t.test('without a good key nothing is read; without a readable time nothing is corrected', async (t) => {
  t.match(await send([buildEvent()], { authorization: '' }), { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await send([buildEvent()], { authorization: 'Bearer phc_nobody' }), { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await send([buildEvent()], { 'posthog-request-timestamp': 'now' }), {
    status: 400, body: { code: 'invalid_timestamp', attr: 'posthog-request-timestamp' }
  })
  t.same(await takePublishedEvents(connection, clickhouse), [])
})

t.test('a later attempt brings the events that were to be sent again, and is answered for these', async (t) => {
  const [kept, again] = [buildEvent(), buildEvent()]
  const request = { 'posthog-request-id': '0193a5b2-7c1d-7e8f-9abc-def012345678' }

  await send([kept, again], request)
  const { headers, body } = await send([again], { ...request, 'posthog-attempt': '2' })
  const stored = await takePublishedEvents(connection, clickhouse)

  t.same(body, { results: { [again.uuid]: { result: 'ok' } } })
  t.equal(headers.get('posthog-request-id'), request['posthog-request-id'])
  t.same(new Set(stored.map(({ uuid }) => uuid)), new Set([kept.uuid, again.uuid]))
})

t.test('properties about persons, groups and places stay as they were sent, and options left out add none', async (t) => {
  const properties = { $set: { a: 1 }, $set_once: { b: 2 }, $groups: { company: 'acme' }, $geoip_disable: true, nested: { list: [1, null] } }
  const event = buildEvent({ properties, timestamp: '2026-08-20T12:00:00.250+02:00', options: { disable_skew_correction: true } })
  const bare = buildEvent({ properties: undefined, options: undefined })

  const { body } = await send([event, bare])
  const stored = await takePublishedEvents(connection, clickhouse)
  const [first, second] = [event, bare].map(({ uuid }) => stored.find((row) => row.uuid === uuid))

  t.same(body.results, { [event.uuid]: { result: 'ok' }, [bare.uuid]: { result: 'ok' } })
  t.same(JSON.parse(first?.properties ?? ''), { ...properties, $ignore_sent_at: true, $lib: 'posthog-made', $lib_version: '1.2.3' })
  t.match(first, { groups: { company: 'acme' }, time_ms: String(Date.parse('2026-08-20T10:00:00.250Z')) })
  t.same(JSON.parse(second?.properties ?? ''), { $lib: 'posthog-made', $lib_version: '1.2.3' })
})

t.test('a visitor without cookies gets an id of the day', async (t) => {
  await send([buildEvent({ distinct_id: '$posthog_cookieless', options: { cookieless_mode: true } })])
  const [stored] = await takePublishedEvents(connection, clickhouse)

  t.match(stored, { distinct_id: /^cookieless_[\w-]{22}$/, ip: '' })
})

t.test('an import waits behind live events, and nothing else does', async (t) => {
  await send([buildEvent()], {}, undefined, { historical_migration: true })
  await send([buildEvent()])
  const messages = await takeMessages(connection, EVENTS_STREAM)

  t.match(messages.map(({ subject }) => subject), [/historical/, /live/])
})

t.test('a refusal echoes the id of the request, and asks nobody to come back', async (t) => {
  const refusals: [number, Record<string, string>, unknown][] = [
    [400, {}, []], [401, { authorization: 'Bearer phc_nobody' }, [buildEvent()]], [400, {}, 'text']
  ]
  for (const [wanted, headers, batch] of refusals) {
    const { status, headers: answered } = await send(batch, headers)
    t.same([status, answered.get('posthog-request-id'), answered.get('retry-after')], [wanted, 'request-1', null])
  }
})

t.test('pages may send from any origin; other methods are refused', async (t) => {
  const preflight = await fetch(url + PATH, {
    method: 'OPTIONS', headers: { origin: 'https://shop.example', 'access-control-request-headers': 'posthog-attempt' }
  })
  t.match(Object.fromEntries(preflight.headers), {
    'access-control-allow-origin': 'https://shop.example', 'access-control-allow-headers': 'posthog-attempt'
  })
  t.match(await fetch(url + PATH), { status: 405 })
})

t.end()
