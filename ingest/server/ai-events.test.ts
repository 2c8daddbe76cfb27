/** Events of language models on the paths that SDKs have for them: in parts, and as Capture V1. */
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { discardPublished, takeMessages, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'
import { WARNINGS_STREAM } from '../../schema/wire/streams.ts'

const clickhouse = await createTestClickHouse(t)
const { url, connection, metric } = await startTestIngest(t)
const UUID = '01a203e1-1cb1-7e98-bb82-0000000000a1'
const KEY = { authorization: `Bearer ${PROJECT_KEY}` }

/** A form as programs build it: each part has a type, as a file has. */
function buildForm (parts: Record<string, [type: string, content: string | Uint8Array<ArrayBuffer>]>): FormData {
  const form = new FormData()
  for (const [name, [type, content]] of Object.entries(parts)) form.append(name, new Blob([content], { type }))
  return form
}

function buildGeneration (input: unknown, more: Parameters<typeof buildForm>[0] = {}): FormData {
  return buildForm({
    event: ['application/json', JSON.stringify({ uuid: UUID, event: '$ai_generation', distinct_id: 'ann', timestamp: '2026-08-20T10:00:00Z' })],
    'event.properties': ['application/json', JSON.stringify({ $ai_model: 'made-up-1', $lib: 'posthog-made', $lib_version: '1.2.3' })],
    'event.properties.$ai_input': ['application/json', JSON.stringify(input)],
    ...more
  })
}

async function send (body: FormData | string, headers: Record<string, string> = KEY, path = '/i/v0/ai'): Promise<{ status: number, body: any }> {
  const response = await fetch(url + path, { method: 'POST', body, headers })
  return { status: response.status, body: await response.json() }
}

t.test('a generation in parts is stored as the same event in one piece, and once however often it comes', async (t) => {
  const input = [{ role: 'user', content: 'hello ✓' }]

  t.same(await send(buildGeneration(input)), { status: 200, body: { status: 1 } })
  t.same(await send(buildGeneration(input), KEY, '/i/v0/ai/'), { status: 200, body: { status: 1 } })
  const stored = await takePublishedEvents(connection, clickhouse)
  const properties = { $ai_model: 'made-up-1', $lib: 'posthog-made', $lib_version: '1.2.3', $ai_input: input }
  const whole = { uuid: UUID, event: '$ai_generation', distinct_id: 'ann', timestamp: '2026-08-20T10:00:00Z', properties }
  t.match(await send(JSON.stringify({ api_key: PROJECT_KEY, batch: [whole] }), {}, '/i/v0/ai/batch/'), { status: 200 })
  const fromBatch = await takePublishedEvents(connection, clickhouse)
  const bare = (rows: typeof stored): unknown => rows.map((row) => ({ ...row, received_at: '', inserted_at: '', request_id: '' }))

  t.equal(stored.length, 1)
  t.same(bare(stored), bare(fromBatch))
  t.match(stored[0], { uuid: UUID, distinct_id: 'ann', lib: 'posthog-made', time_ms: String(Date.parse('2026-08-20T10:00:00Z')) })
  t.same(JSON.parse(stored[0]?.properties ?? ''), properties)
})

t.test('a large generation, compressed, goes the way of large bodies', async (t) => {
  const input = randomBytes(400_000).toString('base64')
  const request = new Request(url, { method: 'POST', body: buildGeneration(input) })
  const body = gzipSync(new Uint8Array(await request.arrayBuffer()))

  const answer = await fetch(`${url}/i/v0/ai`, {
    method: 'POST', body, headers: { ...KEY, 'content-type': request.headers.get('content-type') as string, 'content-encoding': 'gzip' }
  })
  const [stored] = await takePublishedEvents(connection, clickhouse)

  t.equal(answer.status, 200)
  t.equal(JSON.parse(stored?.properties ?? '{}').$ai_input, input)
})

t.test('a part that is too large is left out, with a warning', async (t) => {
  await discardPublished(connection)
  await takeMessages(connection, WARNINGS_STREAM)
  const form = buildGeneration('hello', { 'event.properties.picture': ['image/png', new Uint8Array(100_000)] })

  t.match(await send(form), { status: 200 })
  const [stored] = await takePublishedEvents(connection, clickhouse)
  const warnings = (await takeMessages(connection, WARNINGS_STREAM)).map((message) => message.json<any>())

  t.same(JSON.parse(stored?.properties ?? ''), { $ai_model: 'made-up-1', $lib: 'posthog-made', $lib_version: '1.2.3', $ai_input: 'hello' })
  t.match(JSON.stringify(warnings), /part_left_out.*picture: image\/png, 100000 bytes/)
})

t.test('lists that are not of the parts of a form change nothing', async (t) => {
  const event = { event: 'listed', distinct_id: 'ann', left_out: [{ toString: 1 }], not_utf8: [[{ toString: 1 }]] }

  t.match(await send(JSON.stringify(event), { ...KEY, 'content-type': 'application/json' }), { status: 200 })
  t.same((await takePublishedEvents(connection, clickhouse)).map(({ event }) => event), ['listed'])
})

t.test('errors of a form or its key are answered, and nothing is stored', async (t) => {
  t.match(await send(buildGeneration('x'), {}), { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await send(buildGeneration('x'), { authorization: 'Bearer phc_nobody' }), { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await send(buildForm({ 'event.properties': ['application/json', '{}'] })), { status: 400, body: { code: 'invalid_multipart' } })
  t.match(await send('hello', { ...KEY, 'content-type': 'multipart/form-data; boundary=x' }), { status: 400, body: { code: 'invalid_multipart' } })
  t.match(await send(''), { status: 400, body: { code: 'empty_body' } })
  t.equal((await fetch(`${url}/i/v0/ai`)).status, 405)
  t.match(await send(buildForm({ event: ['application/json', '{"distinct_id":"ann"}'] })), { status: 200 })

  t.equal(await metric('millrace_ingest_events_dropped_total{reason="missing_event_name"}'), 1)
  t.equal(await metric('millrace_ingest_requests_total{path="/i/v0/ai",status="401"}'), 2)
  t.same(await takePublishedEvents(connection, clickhouse), [])
})

t.test('a page of any origin may send', async (t) => {
  const preflight = await fetch(`${url}/i/v0/ai`, {
    method: 'OPTIONS', headers: { origin: 'https://shop.example', 'access-control-request-headers': 'authorization' }
  })

  t.match(Object.fromEntries(preflight.headers), {
    'access-control-allow-origin': 'https://shop.example', 'access-control-allow-headers': 'authorization'
  })
})

t.test('Capture V1 has a path for these events, which is the same as its other one', async (t) => {
  const event = { event: '$ai_generation', uuid: UUID, distinct_id: 'ann', timestamp: new Date().toISOString(), properties: { $ai_model: 'm' } }
  const send = async (path: string): Promise<Response> => await fetch(url + path, {
    method: 'POST',
    body: JSON.stringify({ created_at: new Date().toISOString(), batch: [event] }),
    headers: { ...KEY, 'content-type': 'application/json', 'posthog-request-id': 'request-1' }
  })

  const answers = await Promise.all(['/i/v1/ai/events', '/i/v1/ai/events/'].map(send))
  const stored = await takePublishedEvents(connection, clickhouse)

  for (const answer of answers) {
    t.equal(answer.headers.get('posthog-request-id'), 'request-1')
    t.same(await answer.json(), { results: { [UUID]: { result: 'ok' } } })
  }
  t.same(stored.map(({ uuid, event }) => [uuid, event]), [[UUID, '$ai_generation']])
  t.equal(await metric('millrace_ingest_requests_total{path="/i/v1/ai/events",status="200"}'), 2)
  t.equal((await fetch(`${url}/i/v1/ai/events`)).status, 405)
})

t.end()
