import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import http from 'node:http'
import path from 'node:path'
import zlib from 'node:zlib'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { discardPublished, takeMessages, takePersonsUpdates, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'

const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
t.beforeEach(async () => await discardPublished(ingest.connection))

function buildBatch (events: number, propertyBytes: number): object[] {
  return Array.from({ length: events }, (_, i) => ({
    event: `e${i % 5}`, distinct_id: `u${i}`, properties: { ordinal: i, text: 'é'.repeat(propertyBytes / 2) }
  }))
}

t.test('a batch of nearly 20 MB arrives whole', async (t) => {
  const batch = [...buildBatch(20_000, 900), { event: 'e', distinct_id: 'x', $set: { a: 1 } }, { event: '' }]
  const body = JSON.stringify({ batch, api_key: PROJECT_KEY, sent_at: new Date().toISOString() })
  t.ok(body.length > 10_000_000)
  const receivedBefore = await ingest.metric('millrace_ingest_events_received_total')

  const answer = await ingest.post('/batch/', body)

  t.equal(answer.status, 200)
  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.equal(stored.length, 20_001)
  t.equal(new Set(stored.map(({ properties }) => JSON.parse(properties).ordinal as number)).size, 20_001)
  t.equal(await ingest.metric('millrace_ingest_events_dropped_total{reason="missing_event_name"}'), 1)
  t.equal(await ingest.metric('millrace_ingest_events_received_total') - receivedBefore, 20_002)
  t.match(await takePersonsUpdates(ingest.connection), [{ kind: 'person', distinctId: 'x', set: { a: 1 } }])
})

t.test('a small body that inflates to a large one is taken too, in each form', async (t) => {
  const batch = buildBatch(3000, 1000)
  const gzip = (value: unknown): Buffer => zlib.gzipSync(JSON.stringify(value))

  const answers = [
    await ingest.post('/batch', gzip({ api_key: PROJECT_KEY, batch })),
    await ingest.post('/e/', gzip(batch.map((event) => ({ ...event, token: PROJECT_KEY })))),
    await ingest.post('/capture', gzip({ ...batch[0], api_key: PROJECT_KEY, extra: 'x'.repeat(3_000_000) }))
  ]

  t.same(answers.map(({ status }) => status), [200, 200, 200])
  t.equal((await takePublishedEvents(ingest.connection, clickhouse)).length, 6001)
})

t.test('errors of a large body are answered as for a small one, and nothing is published', async (t) => {
  const batch = buildBatch(1000, 1000)
  const text = JSON.stringify({ api_key: PROJECT_KEY, batch })
  const cases: [string, string | Buffer, number, string][] = [
    ['cut off', text.slice(0, -10), 400, 'invalid_json'],
    ['broken inside an event', text.replace('"ordinal":700', '"ordinal":7x0'), 400, 'invalid_json'],
    ['text behind it', text + 'x', 400, 'invalid_json'],
    ['gzip cut off', zlib.gzipSync(JSON.stringify(batch.map((event) => ({ ...event, random: Math.random() })))).subarray(0, -9), 400, 'invalid_gzip'],
    ['no key', JSON.stringify({ batch }), 401, 'invalid_api_key'],
    ['another key in the middle', JSON.stringify(batch.map((event, i) => ({ ...event, token: i === 700 ? 'other' : PROJECT_KEY }))), 401, 'invalid_api_key'],
    ['batch is no array', JSON.stringify({ api_key: PROJECT_KEY, batch: { a: 'x'.repeat(500_000) } }), 400, 'invalid_batch'],
    ['bomb', zlib.gzipSync(Buffer.alloc(110_000_000, 0x20), { level: 1 }), 413, 'body_too_large'],
    ['too long', Buffer.alloc(20_000_000, 0x20), 413, 'body_too_large']
  ]

  for (const [name, body, status, code] of cases) {
    const answer = await ingest.post('/batch', body)
    t.equal(answer.status, status, name)
    t.match(await answer.json(), { code, detail: String }, name)
  }
  t.equal((await takeMessages(ingest.connection, EVENTS_STREAM)).length, 0)
})

t.test('one event larger than a message is dropped with its reason, its neighbours are kept', async (t) => {
  const huge = { event: 'huge', distinct_id: 'a', properties: { text: 'x'.repeat(35_000_000) } }
  const batch = [{ event: 'one', distinct_id: 'a' }, huge, { event: 'two', distinct_id: 'a' }]

  const answer = await ingest.post('/batch', zlib.gzipSync(JSON.stringify({ api_key: PROJECT_KEY, batch }), { level: 1 }))

  t.equal(answer.status, 200)
  t.same((await takePublishedEvents(ingest.connection, clickhouse)).map(({ event }) => event), ['one', 'two'])
  t.equal(await ingest.metric('millrace_ingest_events_dropped_total{reason="event_too_large"}'), 1)
})

t.test('one event larger than a message, alone, is refused with 413', async (t) => {
  const before = await ingest.metric('millrace_ingest_events_dropped_total{reason="event_too_large"}')
  const huge = { event: 'huge', distinct_id: 'a', properties: { text: 'x'.repeat(35_000_000) }, api_key: PROJECT_KEY }

  const answer = await ingest.post('/capture/', zlib.gzipSync(JSON.stringify(huge), { level: 1 }))

  t.equal(answer.status, 413)
  t.match(await answer.json(), { type: 'validation_error', code: 'event_too_large', detail: String })
  t.equal((await takeMessages(ingest.connection, EVENTS_STREAM)).length, 0)
  t.equal(await ingest.metric('millrace_ingest_events_dropped_total{reason="event_too_large"}') - before, 1)
})

t.test('an event whose persons update is larger than a message is stored, and nothing else is touched by it', async (t) => {
  const large = { event: 'large', distinct_id: 'a', $set: { a: 1 }, properties: { $current_url: 'x'.repeat(20_000_000) } }
  const spooledBefore = await ingest.metric('millrace_ingest_messages_total{outcome="spooled"}')

  const answer = await ingest.post('/e', zlib.gzipSync(JSON.stringify({ ...large, api_key: PROJECT_KEY })))
  const other = await ingest.post('/e', { api_key: PROJECT_KEY, event: 'other', distinct_id: 'b' })

  t.same([answer.status, other.status], [200, 200])
  t.same((await takePublishedEvents(ingest.connection, clickhouse)).map(({ event }) => event), ['large', 'other'])
  t.strictSame((await takePersonsUpdates(ingest.connection)).map((update) => [update.kind, 'set' in update]), [['person', false]])
  t.equal(await ingest.metric('millrace_ingest_messages_total{outcome="spooled"}'), spooledBefore)
  t.notOk((await readdir(path.join(ingest.dataDir, 'spool', '0'))).some((name) => name.startsWith('refused')))
})

t.test('a small body that inflates to a large one has its share of the memory until its events are published', async (t) => {
  const reserved = async (): Promise<number> => await ingest.metric('millrace_ingest_inflated_body_bytes')
  const body = zlib.gzipSync(JSON.stringify({ api_key: PROJECT_KEY, batch: buildBatch(3000, 1000) }))
  t.ok(body.length < 262_144)
  t.equal(await reserved(), 0)

  await ingest.nats.kill('SIGSTOP')
  const answer = ingest.post('/batch', body)
  await waitFor(async () => await reserved() > 0)
  await ingest.nats.kill('SIGCONT')

  t.equal((await answer).status, 200)
  t.equal(await reserved(), 0)
  await waitFor(async () => await ingest.metric('millrace_ingest_spool_bytes') === 0)
  t.equal((await takePublishedEvents(ingest.connection, clickhouse)).length, 3000)
})

t.test('an event with too many values is dropped with its reason, its neighbours are kept, in every dialect', async (t) => {
  const build = (event: string, values: number): object => ({
    event, type: 'track', userId: 'a', distinct_id: 'a', uuid: randomUUID(), timestamp: '2026-11-01T10:00:00Z', properties: { list: Array(values).fill(1) }
  })
  const batch = (): object[] => [build('one', 200_000), build('many', 250_000), build('two', 200_000), build('three', 1)]
  const dropped = async (): Promise<number> => await ingest.metric('millrace_ingest_events_dropped_total{reason="event_too_large"}')
  const before = await dropped()

  const answers = [
    await ingest.post('/batch', { api_key: PROJECT_KEY, batch: batch() }),
    await ingest.post('/e/', batch().map((event) => ({ ...event, token: PROJECT_KEY }))),
    await ingest.post('/v1/batch', { batch: batch(), writeKey: PROJECT_KEY }),
    await ingest.post('/i/v1/analytics/events', { batch: batch() }, { headers: { authorization: `Bearer ${PROJECT_KEY}` } })
  ]

  t.same(answers.map(({ status }) => status), [200, 200, 200, 200])
  const { results } = await answers[3]?.json() as { results: Record<string, { result: string }> }
  t.same(Object.values(results).map(({ result }) => result), ['ok', 'drop', 'ok', 'ok'])
  t.same((await takePublishedEvents(ingest.connection, clickhouse)).map(({ event }) => event).sort(),
    ['one', 'three', 'two'].flatMap((name) => Array(4).fill(name) as string[]))
  t.equal(await dropped() - before, 4)
})

t.test('an event with too many values, alone, is refused with 413, wherever its key is', async (t) => {
  const many = { event: 'many', distinct_id: 'a', properties: { list: Array(250_000).fill(1) } }
  const withToken = { ...many, properties: { ...many.properties, token: PROJECT_KEY } }
  for (const body of [{ ...many, api_key: PROJECT_KEY }, [withToken]]) {
    const answer = await ingest.post('/e/', body)
    t.equal(answer.status, 413)
    t.match(await answer.json(), { code: 'event_too_large', detail: /250000 values/ })
  }
  const beside = { api_key: PROJECT_KEY, batch: [], extra: many.properties.list }
  t.match(await (await ingest.post('/e/', beside)).json(), { code: 'body_too_large' })
})

t.test('clients that leave while they wait leave no memory taken, and made-up keys do not reach the reserved memory', async (t) => {
  const taken = async (): Promise<number> => await ingest.metric('millrace_ingest_large_body_bytes')
  const begin = async (key: string): Promise<http.ClientRequest> => {
    const headers = { 'content-length': 19_000_000, authorization: `Bearer ${key}` }
    const request = http.request(`${ingest.url}/i/v1/analytics/events`, { method: 'POST', headers, agent: false }).on('error', () => {})
    await new Promise((resolve) => request.write(Buffer.alloc(300_000, 0x20), resolve))
    return request
  }
  const requests = await Promise.all(Array.from({ length: 5 }, async (_, n) => await begin(`made-up-${n}`)))
  await waitFor(async () => await taken() === 95_000_000)

  const waiting = await Promise.all([begin('made-up-5'), begin('made-up-6')])
  // Each answer gives the server, which is in this process, time to notice them.
  for (let answers = 0; answers < 5; answers++) t.equal(await taken(), 95_000_000)
  for (const request of waiting) request.destroy()
  for (let answers = 0; answers < 5; answers++) t.equal(await taken(), 95_000_000)
  for (const request of requests) request.destroy()

  await waitFor(async () => await taken() === 0)
  t.equal((await ingest.post('/e', ' '.repeat(300_000))).status, 400)
  t.equal(await taken(), 0)
})
