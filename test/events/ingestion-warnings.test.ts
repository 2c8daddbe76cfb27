import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { PROJECT_KEY, startTestIngest, type TestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { storeWarnings } from '../../pipeline/accounting/store-warnings.ts'
import { type ClickHouse, connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../../platform/logger.ts'
import { INGESTION_WARNINGS, type WarningReason } from '../../schema/wire/ingestion-warnings.ts'
import { WARNINGS_CONSUMER, WARNINGS_STREAM, WARNINGS_SUBJECT } from '../../schema/wire/streams.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const LIB = { $lib: 'web', $lib_version: '1.2.3' }
/** Between two messages of a process. */
const PAUSE_MS = 100
const UUID = '0193a5b2-7c1d-7e8f-9abc-def012345678'

interface Warning {
  reason: WarningReason
  effect: string
  count: number
  samples: Record<string, string>[]
}

/** An ingest, a table, and a project of them. */
async function startSystem (t: Test, env: NodeJS.ProcessEnv = {}) {
  const [ingest, clickhouse] = await Promise.all([startTestIngest(t, env), createTestClickHouse(t)])
  return showIn(1, PROJECT_KEY, { ingest, client: clickhouse.client })
}

function showIn (project: number, key: string, { ingest, client }: { ingest: TestIngest, client: ClickHouse }) {
  return {
    ingest,
    client,
    project,
    key,
    store: async () => await storeWarnings({ connection: ingest.connection, clickhouse: client, logger }),
    /** Of all minutes: a test may run across the end of one. */
    read: async (of = project) => await (await client.query({
      query: `SELECT reason, any(effect) AS effect, toUInt32(sum(count)) AS count, groupArrayArray(samples) AS samples
        FROM ingestion_warnings WHERE project_id = ${of} GROUP BY reason ORDER BY reason`,
      format: 'JSONEachRow'
    })).json<Warning>()
  }
}

const shared = await startSystem(t)

/** A new project of the system that the tests share: what is counted, is counted for each project. */
async function addProject () {
  const { sql } = shared.ingest.postgres
  const key = `phc_${randomUUID()}`
  const [project] = await sql<[{ id: number }]>`INSERT INTO projects (name) VALUES ('another') RETURNING id`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${key}, ${project.id}, 'project')`
  return showIn(project.id, key, shared)
}

/** An event for each reason that events can have. */
const EVENTS: [reason: WarningReason, event: unknown, value: string][] = [
  ['not_an_object', 'text', 'text'],
  ['missing_event_name', { distinct_id: 'd' }, ''],
  ['invalid_event_name', { event: 7, distinct_id: 'd' }, '7'],
  ['missing_distinct_id', { event: 'e', distinct_id: ' ' }, ' '],
  ['invalid_properties', { event: 'e', distinct_id: 'd', properties: [1] }, '[1]'],
  ['timestamp_in_future', { event: 'e', distinct_id: 'd', timestamp: '2199-01-01T00:00:00Z' }, '2199-01-01T00:00:00Z'],
  ['timestamp_too_old', { event: 'e', distinct_id: 'd', timestamp: '1970-01-01T00:00:00Z' }, '1970-01-01T00:00:00Z'],
  ['timestamp_unreadable', { event: 'e', distinct_id: 'd', timestamp: 'soon' }, 'soon'],
  ['text_replaced', { event: 'e', distinct_id: 'a\0b' }, 'a\ufffdb'],
  ['uuid_invalid', { event: 'e', distinct_id: 'd', uuid: 'order 5' }, 'order 5'],
  ['event_name_cut', { event: 'n'.repeat(201), distinct_id: 'd' }, 'n'.repeat(200)],
  ['distinct_id_cut', { event: 'e', distinct_id: 'i'.repeat(201) }, 'i'.repeat(200)],
  ['group_cut', { event: 'e', distinct_id: 'd', properties: { $groups: { g: 'k'.repeat(401) } } }, `g: ${'k'.repeat(197)}`],
  ['too_many_groups', { event: 'e', distinct_id: 'd', properties: { $groups: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`g${n}`, 'k'])) } }, '101 groups'],
  ['column_cut', { event: 'e', distinct_id: 'd', properties: { $current_url: 'u'.repeat(8193) } }, '$current_url'],
  ['property_too_deep', { event: 'e', distinct_id: 'd', properties: { deep: JSON.parse('['.repeat(201) + ']'.repeat(201)) as unknown } }, 'deep'],
  ['visitor_unknown', { event: 'e', distinct_id: '$posthog_cookieless', timestamp: '2026-01-01T00:00:00Z' }, 'no salt of the day'],
  ['property_not_described', { event: 'e', distinct_id: 'd', properties: { ['p'.repeat(201)]: 1 } }, 'p'.repeat(200)]
]

t.test('everything that is not stored as sent is counted by project and reason, with samples', async (t) => {
  const { ingest, project, key, client, store, read } = await addProject()
  const good = { event: 'good', distinct_id: 'd', uuid: UUID, timestamp: new Date().toISOString(), properties: { $groups: { g: 'k' } } }
  const batch = [good, ...EVENTS.flatMap(([, event]) => [event, event])]

  t.equal((await ingest.post('/batch/', { api_key: key, batch })).status, 200)
  await store()
  const warnings = await read()

  t.same(warnings.map(({ reason }) => reason), EVENTS.map(([reason]) => reason).sort())
  for (const [reason, , value] of EVENTS) {
    const warning = warnings.find((each) => each.reason === reason)
    t.match(warning, { effect: INGESTION_WARNINGS[reason], count: 2, samples: [{ value }] }, reason)
  }
  const [table] = await (await client.query({
    query: `SELECT count() AS rows, uniqExact(source) AS sources FROM ingestion_warnings_by_source WHERE project_id = ${project}`, format: 'JSONEachRow'
  })).json<Record<string, string>>()
  t.same(table, { rows: String(EVENTS.length), sources: '1' })
})

t.test('what ClickHouse could not store comes again in one insert', async (t) => {
  const { ingest, key, store, read } = await addProject()
  const manager = await jetstreamManager(ingest.connection)
  const waiting = async (): Promise<number> => (await manager.streams.info(WARNINGS_STREAM)).state.messages
  await waitFor(async () => { await store(); return await waiting() === 0 })
  for (const messages of [1, 2, 3, 4]) {
    t.equal((await ingest.post('/batch/', { api_key: key, batch: [7] })).status, 200)
    await waitFor(async () => await waiting() === messages)
  }
  const unavailable = connectClickHouse({ url: 'http://127.0.0.1:9/none' })
  t.teardown(async () => { await unavailable.close() })

  await t.rejects(storeWarnings({ connection: ingest.connection, clickhouse: unavailable, logger }))
  await store()

  t.match(await read(), [{ reason: 'not_an_object', count: 4 }])
  await waitFor(async () => await waiting() === 0)
})

t.test('a text that cannot be stored is counted where it was replaced, and what can is not', async (t) => {
  const { ingest, key, store, read } = await addProject()
  const about = (fields: Record<string, unknown>): object => ({ event: 'e', distinct_id: 'd', ...fields })
  const replaced = [
    [about({ event: 'a\0' }), 'a\ufffd'], [about({ distinct_id: 'b\0' }), 'b\ufffd'], [about({ distinct_id: 'c\ud800' }), 'c\ufffd'],
    [about({ properties: { $groups: { 'g\0': 'k' } } }), 'g\ufffd: k'], [about({ properties: { $groups: { g: 'k\0' } } }), 'g: k\ufffd'],
    [about({ event: '$identify', properties: { $anon_distinct_id: 'f\0' } }), 'f\ufffd'], [about({ event: '$create_alias', properties: { alias: 'h\0' } }), 'h\ufffd'],
    [about({ event: '$groupidentify', properties: { $group_type: 'g', $group_key: 'i\0' } }), 'i\ufffd'], [about({ properties: { 'p\0': 1 } }), 'p\ufffd'],
    [about({ properties: { cut: '\ud83d' } }), 'in the property cut'], [about({ properties: { deep: [{ q: { '\udc00': 1 } }] } }), 'in the property deep']
  ] as const
  const asSent = [
    about({ event: 'a\ufffd', distinct_id: 'b\ufffd', properties: { $groups: { 'g\ufffd': 'k\ufffd' }, c: '\ufffd \\ud83d 😀', $device_id: 7 } }),
    about({ distinct_id: 12 }), about({ event: '$identify', properties: { $anon_distinct_id: 'other' } })
  ]

  // A message each: then the first samples of each are kept.
  for (const [event] of replaced) t.equal((await ingest.post('/capture/', { api_key: key, ...event })).status, 200)
  await store()
  const [warning] = await read()
  t.match(warning, { reason: 'text_replaced', effect: 'replaced', count: replaced.length })
  for (const { value } of warning!.samples) t.ok(replaced.some(([, each]) => each === value), `${value} was sent`)
  t.equal((await ingest.post('/batch/', { api_key: key, batch: asSent })).status, 200)
  await store()
  t.match(await read(), [{ reason: 'text_replaced', count: replaced.length }])
  t.equal((await read()).length, 1)
})

t.test('a body that is not UTF-8 is counted where it was replaced, unless it says its charset', async (t) => {
  const { ingest, key, store, read } = await addProject()
  const event = (fields: string, filler = 10): string =>
    `{"api_key":"${key}","batch":[{"event":"e","distinct_id":"d"},{"event":"e",${fields},"x":"${'x'.repeat(filler)}"}]}`
  const bytes = (text: string): Buffer => Buffer.from(text, 'latin1')
  const inId = event('"distinct_id":"jos\xe9"')
  const replaced: [body: Buffer, type: string, value?: string][] = [
    [bytes(inId), 'application/json', 'jos\ufffd'],
    [gzipSync(bytes(event('"distinct_id":"d","properties":{"a":1,"city":"Orl\xe9ans"}', 2_000_000))), 'application/json', 'in the property city, which is not UTF-8'],
    [bytes(event('"distinct_id":"d","properties":{"$set":{"\xe9":1}}')), 'application/json', 'in the property $set, which is not UTF-8'],
    [gzipSync(bytes(inId)), 'application/json'],
    [bytes(`data=${escape(inId)}`), 'application/x-www-form-urlencoded'],
    [bytes(event('"distinct_id":"jos\xe9"', 500_000)), 'application/json']
  ]
  const post = async (body: Buffer, type: string): Promise<number> =>
    (await ingest.post('/batch/', body, { headers: { 'content-type': type } })).status

  for (const [body, type] of replaced) {
    t.equal(await post(body, type), 200)
    t.equal(await post(body, `${type}; charset=iso-8859-1`), 200)
  }
  await store()
  const [warning, ...others] = await read()
  t.match(warning, { reason: 'text_replaced', effect: 'replaced', count: replaced.length })
  // A value is sampled once in each total that ingest sends, and when it sends one is left to its clock.
  const sampled = new Set(warning!.samples.map(({ value }) => value))
  t.same([...sampled].sort(), replaced.flatMap(([,, value]) => value ?? []).sort())
  t.same(others, [])
})

t.test('dropped events are remembered by uuid, as many as a process may name in a minute', async (t) => {
  const { ingest, client, store } = await startSystem(t)
  const batch = Array.from({ length: 1200 }, (_, n) => ({ event: '', distinct_id: 'd', uuid: `00000000-0000-4000-8000-${String(n + 1).padStart(12, '0')}` }))
  const none = [{ event: '', distinct_id: 'd' }, { event: '', distinct_id: 'd', uuid: 'order 5' }]

  t.equal((await ingest.post('/batch/', { api_key: PROJECT_KEY, batch: [...none, { uuid: UUID.toUpperCase() }, ...batch] })).status, 200)
  t.equal((await ingest.post('/batch/', { api_key: PROJECT_KEY, batch })).status, 200)
  await store()

  const traces = await (await client.query({
    query: `SELECT kind, reason, process != '' AS named, distinct_id_hash != '' AS hashed, uuid = '${UUID}' AS first, toUInt32(count()) AS count
      FROM event_traces GROUP BY ALL ORDER BY ALL`,
    format: 'JSONCompactEachRow'
  })).json()
  const [first, others] = traces as unknown[][]
  t.same(first, ['dropped', 'missing_event_name', 1, 0, 1, 1])
  t.match(others, ['dropped', 'missing_event_name', 1, 1, 0])
  // The two requests may lie on both sides of the end of a minute.
  t.ok([999, 1999].includes(others?.[5] as number), String(others?.[5]))
})

t.test('a sample says which event of which SDK it was; large bodies are counted as small ones are', async (t) => {
  const { ingest, key, store, read } = await addProject()
  const event = { event: 'paid', distinct_id: 'd\0', uuid: UUID, properties: { ...LIB, filler: 'x'.repeat(400_000) }, timestamp: 'soon' }
  const batch = [event, ...Array.from({ length: 9 }, () => ({ distinct_id: 'nameless', properties: LIB }))]

  t.equal((await ingest.post('/batch/', { api_key: key, batch })).status, 200)
  await store()

  t.match(await read(), [
    { reason: 'missing_event_name', count: 9, samples: [{ distinct_id: 'nameless', lib: 'web', lib_version: '1.2.3' }] },
    { reason: 'text_replaced', count: 1, samples: [{ uuid: UUID, value: 'd\ufffd' }] },
    { reason: 'timestamp_unreadable', count: 1, samples: [{ event: 'paid', distinct_id: 'd\ufffd', uuid: UUID, lib: 'web', lib_version: '1.2.3', value: 'soon' }] }
  ])
})

t.test('requests with a wrong key and requests beyond the rate limit are counted, without the key', async (t) => {
  const { ingest, store, read } = await startSystem(t, { MILLRACE_INGEST_RATE_LIMIT: '1' })
  const event = { event: 'e', distinct_id: 'd' }
  const secret = 'phc_this_is_somebody_elses'
  const post = async (key: string | undefined, batch: unknown[]): Promise<number> =>
    (await ingest.post('/batch/', { api_key: key, batch })).status

  t.equal(await post(secret, [event]), 401)
  t.equal(await post(undefined, [event]), 401)
  t.equal(await post(PROJECT_KEY, Array.from({ length: 30 }, () => event)), 200)
  t.equal(await post(PROJECT_KEY, [event]), 429)
  t.equal(await post(PROJECT_KEY, [event]), 429)
  await waitFor(async () => { await store(); return (await read()).length > 0 && (await read(0)).length > 0 })

  t.match(await read(), [{ reason: 'rate_limited', effect: 'refused', count: 2 }])
  const [wrong] = await read(0)
  t.match(wrong, { reason: 'wrong_key', count: 2 })
  t.same(wrong?.samples.map(({ value }) => value).sort(), ['', 'phc_this… (26 characters)'])
})

t.test('requests that nobody could read, and those to a path that nobody serves, are counted', async (t) => {
  const api = createServer((_, response) => { response.writeHead(404).end() }).listen(0, '127.0.0.1')
  await once(api, 'listening')
  t.teardown(() => api.close())
  const { ingest, store, read } = await startSystem(t, {
    MILLRACE_MAX_BODY_BYTES: '100000',
    MILLRACE_API_URL: `http://127.0.0.1:${(api.address() as AddressInfo).port}`
  })
  const post = async (path: string, body: string, headers: Record<string, string> = {}): Promise<number> => {
    const sent = { 'content-type': 'application/json', ...headers }
    const response = await fetch(ingest.url + path, { method: 'POST', body, headers: sent })
    await response.arrayBuffer()
    return response.status
  }

  t.equal(await post('/batch/', `{"api_key":"${PROJECT_KEY}","batch":["${'x'.repeat(200_000)}"]}`), 413)
  t.equal(await post('/capture/', '{"event":'), 400)
  t.equal(await post('/captur?ip=1', JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'd' })), 404)
  t.equal(await post('/phx_secret0123456789/e/', '{}'), 404)
  t.equal(await post('/api/batch/', '{}'), 404)
  t.equal(await post('/api/event', '{}'), 404)
  t.equal(await post('/api/nothing', '{}', { authorization: 'Bearer phx_of_a_person' }), 404)
  t.equal(await post('/console/nothing', '{}'), 404)
  await waitFor(async () => { await store(); return (await read(0)).reduce((sum, { count }) => sum + count, 0) === 6 })

  const found = (await read(0)).map(({ reason, effect, count, samples }) => ({
    reason, effect, count, values: samples.map(({ value }) => value).sort()
  }))
  t.strictSame(found, [
    { reason: 'body_too_large', effect: 'refused', count: 1, values: ['The request body is larger than 100000 bytes.'] },
    { reason: 'body_unreadable', effect: 'refused', count: 1, values: ['invalid_json: The body is not valid JSON.'] },
    { reason: 'unknown_path', effect: 'refused', count: 4, values: ['/api/batch/', '/captur', '/phx_secr… (20 characters)/e/'] }
  ], 'a typo of a management client is not among them, and no key is kept')
})

t.test('a flood of requests that are refused as a whole is counted, and costs a row a minute for each reason', async (t) => {
  const api = createServer((_, response) => { response.writeHead(404).end() }).listen(0, '127.0.0.1')
  await once(api, 'listening')
  t.teardown(() => api.close())
  const { ingest, client, store, read } = await startSystem(t, {
    MILLRACE_API_URL: `http://127.0.0.1:${(api.address() as AddressInfo).port}`
  })
  const manager = await jetstreamManager(ingest.connection)
  const startedAt = performance.now()
  let sent = 0
  const flood = async (): Promise<void> => {
    while (sent < 600) {
      const number = sent++
      const [path, body] = number % 3 === 0
        ? [`/nowhere/${number}`, '{}']
        : ['/capture/', number % 3 === 1 ? `{"number":${number}` : `{"api_key":"phc_of_nobody_${number}","event":"e","distinct_id":"d"}`]
      await (await fetch(ingest.url + path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })).arrayBuffer()
    }
  }
  await Promise.all(Array.from({ length: 20 }, flood))
  const seconds = (performance.now() - startedAt) / 1000

  await waitFor(async () => { await store(); return (await read(0)).every(({ count }) => count === 200) })

  const { state } = await manager.streams.info(WARNINGS_STREAM)
  t.ok(state.last_seq <= 3 + 2 * seconds, `${state.last_seq} messages in ${Math.round(seconds)} s`)
  const rows = await (await client.query({
    query: 'SELECT reason, minute, length(any(samples)) AS samples FROM ingestion_warnings_by_source FINAL GROUP BY ALL', format: 'JSONEachRow'
  })).json<{ reason: string, samples: number }>()
  t.ok(rows.length <= 3 * (2 + seconds / 60), `${rows.length} rows`)
  t.ok(rows.every(({ samples }) => Number(samples) <= 3))
})

t.test('counts are exact when messages come twice, and in another order', async (t) => {
  const { ingest, key, store, read } = await addProject()
  const { connection } = ingest
  const bad = { event: '', distinct_id: 'd' }
  for (let n = 1; n <= 3; n++) {
    t.equal((await ingest.post('/capture/', { api_key: key, ...bad })).status, 200)
  }
  const manager = await jetstreamManager(connection)
  const { state } = await manager.streams.info(WARNINGS_STREAM)
  const payloads = []
  for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
    payloads.push((await manager.streams.getMessage(WARNINGS_STREAM, { seq }))!.data)
  }

  await store()
  for (const payload of payloads.reverse()) await jetstream(connection).publish(WARNINGS_SUBJECT, payload)
  await store()

  t.match(await read(), [{ reason: 'missing_event_name', count: 3 }])
  t.equal((await manager.streams.info(WARNINGS_STREAM)).state.messages, 0, 'stored warnings leave the stream')
})

t.test('what a process had taken when it died is stored within half a minute', async (t) => {
  const { ingest, key, store, read } = await addProject()
  // Makes the consumer.
  await store()
  t.equal((await ingest.post('/capture/', { api_key: key, event: '', distinct_id: 'd' })).status, 200)
  const consumer = await jetstream(ingest.connection).consumers.get(WARNINGS_STREAM, WARNINGS_CONSUMER)
  const taken = await consumer.next({ expires: 10_000 })
  t.ok(taken, 'a process takes it, and never acknowledges it')

  await waitFor(async () => {
    await store()
    return (await read()).length > 0
  }, { everyMs: 500 })

  t.match(await read(), [{ reason: 'missing_event_name', count: 1 }])
})

t.test('a flood of bad requests makes few messages and one row', async (t) => {
  const { ingest, project, key, client, store, read } = await addProject()
  const startedAt = performance.now()
  for (let round = 0; round < 20; round++) {
    await Promise.all(Array.from({ length: 20 }, async (_, n) =>
      await ingest.post('/capture/', { api_key: key, event: `${round} ${n}`, distinct_id: '' })))
  }
  // Two of each round, and one after each pause where a round takes longer.
  const most = 41 + (performance.now() - startedAt) / PAUSE_MS
  const { state } = await (await jetstreamManager(ingest.connection)).streams.info(WARNINGS_STREAM)
  t.ok(state.messages <= most, `${state.messages} messages for 400 requests`)

  await store()
  await client.command({ query: 'OPTIMIZE TABLE ingestion_warnings_by_source FINAL' })

  const [warning, ...more] = await read()
  t.same(more, [])
  t.match(warning, { reason: 'missing_distinct_id', count: 400 })
  t.ok((warning?.samples.length ?? 0) <= 10, 'five a minute')
  const [{ rows } = { rows: '' }] = await (await client.query({
    query: `SELECT count() AS rows FROM ingestion_warnings_by_source WHERE project_id = ${project}`, format: 'JSONEachRow'
  })).json<{ rows: string }>()
  t.ok(Number(rows) <= 2)
})

t.test('while the stream is unavailable, warnings take the way through the spool', async (t) => {
  const { ingest, key, store, read } = await addProject()
  await ingest.nats.kill('SIGSTOP')
  t.equal((await ingest.post('/capture/', { api_key: key, event: '', distinct_id: 'd' })).status, 200)
  await ingest.nats.kill('SIGCONT')

  await waitFor(async () => await ingest.metric('millrace_ingest_spool_bytes') === 0)
  await waitFor(async () => { await store(); return (await read()).length > 0 })
  t.match(await read(), [{ reason: 'missing_event_name', count: 1 }])
})
