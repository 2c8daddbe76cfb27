import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { startTestNats } from '../../test/support/test-processes.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { discardPublished, takePersonsUpdates, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest, TEAM_KEY } from '../testing/start-test-ingest.ts'

/** Beyond 2^53, as databases of other languages number things. */
const ID = '9223372036854775807'

const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
t.beforeEach(async () => await discardPublished(ingest.connection))

t.test('an event answered with 200 is in the stream, every column as sent', async (t) => {
  const uuid = '0193a5b2-7c1d-7e8f-9abc-def012345678'
  const event = {
    event: 'order paid',
    uuid,
    timestamp: '2026-01-02T03:04:05.678Z',
    properties: { distinct_id: 'user-1', amount: 12.5, $browser: 'Firefox', $groups: { company: 'id:5' }, at: 'ümlaut ✓' }
  }

  const answer = await ingest.post('/capture/', { api_key: PROJECT_KEY, ...event })

  t.equal(answer.status, 200)
  t.equal(await answer.text(), '{"status":1}')
  const [stored, ...more] = await takePublishedEvents(ingest.connection, clickhouse)
  t.same(more, [])
  t.match(stored, {
    project_id: 1, uuid, event: 'order paid', distinct_id: 'user-1', browser: 'Firefox', ip: '127.0.0.1',
    timestamp: '2026-01-02 03:04:05.678', groups: { company: 'id:5' },
    properties: JSON.stringify(event.properties),
    property_types: ['eSdistinct_id', 'eNamount', 'eS$browser', 'eSat'].join('\0')
  })
})

t.test('a batch keeps its good events and drops the bad ones, counted by reason', async (t) => {
  const batch = [
    { event: 'good', distinct_id: 'a' },
    { distinct_id: 'nameless' },
    { event: '', distinct_id: 'empty name' },
    { event: ' \t\u00a0', distinct_id: 'blank name' },
    { event: 7, distinct_id: 'numeric name' },
    { event: 'no sender' },
    { event: 'empty sender', distinct_id: '' },
    { event: 'blank sender', distinct_id: ' \n' },
    { event: 'bad properties', distinct_id: 'a', properties: [1] },
    'not an event',
    { event: 'good', distinct_id: 'b' }
  ]
  const dropped = async (reason: string): Promise<number> =>
    await ingest.metric(`millrace_ingest_events_dropped_total{reason="${reason}"}`)

  const answer = await ingest.post('/batch/', { api_key: TEAM_KEY, batch })

  t.equal(answer.status, 200)
  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.same(stored.map(({ event, distinct_id: id }) => [event, id]), [['good', 'a'], ['good', 'b']])
  t.equal(await dropped('missing_event_name'), 3)
  t.equal(await dropped('invalid_event_name'), 1)
  t.equal(await dropped('missing_distinct_id'), 3)
  t.equal(await dropped('invalid_properties'), 1)
  t.equal(await dropped('not_an_object'), 1)
})

t.test('an empty array is an empty object, wherever PHP writes one for the other', async (t) => {
  const batch = [
    { event: 'nothing', distinct_id: 'a', properties: [] },
    { event: 'no groups', distinct_id: 'b', properties: { $groups: [], $set: [], $set_once: [] }, $set: [], $set_once: [], $unset: [] },
    { event: '$groupidentify', distinct_id: 'c', properties: { $group_type: 'team', $group_key: 'k', $group_set: [] } }
  ]

  for (const filler of [0, 2_000_000]) {
    const answer = await ingest.post('/batch/', { api_key: PROJECT_KEY, batch, filler: 'x'.repeat(filler) })
    t.equal(answer.status, 200)
    const stored = await takePublishedEvents(ingest.connection, clickhouse)
    t.same(stored.map(({ event, properties, groups }) => [event, properties, groups]), [
      ['nothing', '{}', {}],
      ['no groups', '{"$groups":[],"$set":[],"$set_once":[]}', {}],
      ['$groupidentify', JSON.stringify(batch[2]?.properties), {}]
    ])
    t.match((await takePersonsUpdates(ingest.connection)).find(({ kind }) => kind === 'group'), { groupType: 'team', groupKey: 'k', set: {} })
  }
})

t.test('a time that no calendar has is replaced by the time of receipt, and marked', async (t) => {
  const startedAt = Date.now()
  const answer = await ingest.post('/capture/', { api_key: PROJECT_KEY, event: 'e', distinct_id: 'd', timestamp: '2026-02-30T10:00:00Z' })

  t.equal(answer.status, 200)
  const [stored] = await takePublishedEvents(ingest.connection, clickhouse)
  t.equal(stored?.properties, '{"$original_timestamp":"2026-02-30T10:00:00Z"}')
  t.ok(Number(stored?.time_ms) >= startedAt)
})

t.test('many requests at once share messages and are all answered', async (t) => {
  const answers = await Promise.all(Array.from({ length: 200 }, async (_, i) =>
    await ingest.post('/e/', [{ event: `e${i}`, properties: { token: PROJECT_KEY, distinct_id: 'x' } }])))

  t.ok(answers.every(({ status }) => status === 200))
  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.equal(new Set(stored.map(({ event }) => event)).size, 200)
})

t.test('what events change about persons and groups is published beside them, in order', async (t) => {
  const batch = [
    { event: '$identify', distinct_id: 'u', properties: { $anon_distinct_id: 'anon', $browser: 'Safari' }, $set: { plan: 'pro' } },
    { event: '$pageview', distinct_id: 'u', properties: { $browser: 'Safari', $groups: { workspace: 'c1' } } },
    { event: '$groupidentify', distinct_id: 'g', properties: { $group_type: 'workspace', $group_key: 'c1', $group_set: { size: 5 } } },
    { event: '$create_alias', properties: { distinct_id: 'u', alias: 'other' } },
    { event: 'quiet', distinct_id: 'u', properties: { $set: { a: 1 }, $process_person_profile: false } }
  ]

  const answer = await ingest.post('/batch', { api_key: PROJECT_KEY, batch })

  t.equal(answer.status, 200)
  const updates = await takePersonsUpdates(ingest.connection)
  t.match(updates, [
    {
      kind: 'merge', how: 'identify', projectId: 1, distinctId: 'u', otherDistinctId: 'anon',
      set: { $browser: 'Safari', plan: 'pro' }, setOnce: { $initial_browser: 'Safari' }
    },
    { kind: 'groupType', groupType: 'workspace' },
    { kind: 'group', groupType: 'workspace', groupKey: 'c1', set: { size: 5 } },
    { kind: 'merge', how: 'alias', distinctId: 'u', otherDistinctId: 'other' }
  ])
  t.equal(updates.length, 4)
})

t.test('ids beyond 2^53 are stored with all their digits, of small bodies and large ones', async (t) => {
  const event = (name: string, filler: number): string =>
    `{"event":"${name}","distinct_id":${ID},"properties":{"order_id":${ID},"nested":[{"id":-${ID},"batch":${ID}}],"project_id":${ID},"timestamp":${ID},"amount":12.5,"filler":"${'x'.repeat(filler)}"}}`

  for (const [name, filler, count] of [['small', 10, 2], ['large', 100_000, 30]] as const) {
    const body = `{"api_key":"${PROJECT_KEY}","batch":[${Array.from({ length: count }, () => event(name, filler)).join(',')}]}`
    t.equal((await ingest.post('/batch/', body)).status, 200)
  }

  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.equal(stored.length, 32)
  for (const { properties, distinct_id: distinctId, property_types: types } of stored) {
    if (!properties.startsWith(`{"order_id":${ID},"nested":[{"id":-${ID},"batch":${ID}}],"project_id":${ID},"timestamp":${ID},"amount":12.5,`)) t.fail(properties.slice(0, 100))
    if (distinctId !== ID) t.fail(String(distinctId))
    if (!String(types).startsWith('eNorder_id')) t.fail(String(types))
  }
})

t.test('an event larger than a message, alone, is refused with 413 in every form, unless the client gets a result per event', async (t) => {
  const nats = await startTestNats(t, { extraConfig: 'max_payload: 1MB' })
  const ingest = await startTestIngest(t, { NATS_URL: nats.url })
  const event = {
    event: 'e', userId: 'u', uuid: randomUUID(), distinct_id: 'u', timestamp: new Date().toISOString(), properties: { text: 'x'.repeat(600_000) }
  }
  const bodies: [string, object, number][] = [
    ['/capture/', { ...event, api_key: PROJECT_KEY }, 413],
    ['/batch/', { api_key: PROJECT_KEY, batch: [event, event] }, 413],
    ['/batch/', { api_key: PROJECT_KEY, batch: [event, { event: 'small', distinct_id: 'u' }] }, 200],
    ['/v1/track', { ...event, writeKey: PROJECT_KEY }, 413],
    ['/i/v1/analytics/events', { batch: [event] }, 200]
  ]

  for (const [path, body, status] of bodies) {
    for (const send of [JSON.stringify(body), gzipSync(JSON.stringify(body))]) {
      const answer = await ingest.post(path, send, { headers: { authorization: `Bearer ${PROJECT_KEY}` } })
      t.equal(answer.status, status, path)
      if (status === 413) t.match(await answer.json(), { type: 'validation_error', code: 'event_too_large' })
      else if (path.startsWith('/i/v1')) t.match(await answer.json(), { results: { [event.uuid]: { result: 'drop' } } })
    }
  }
})
