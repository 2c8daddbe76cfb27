import { randomUUID } from 'node:crypto'
import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../../platform/logger.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { setRetention } from '../../api/projects/retention-routes.ts'
import { makeEvent, publishEvents } from '../../pipeline/testing/publish-events.ts'
import { type EventTrace, hashDistinctId, toTraceRow, TRACES_TABLE } from '../../schema/wire/event-traces.ts'
import { INGEST_BUCKET, presenceKey } from '../../schema/wire/ingest-presence.ts'
import { toWarningRow, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import { freePort } from '../support/local-ports.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { plantDeadLetters } from '../../api/testing/plant-dead-letters.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const NOTHING = {
  stored: null, duplicates: null, dead_letter: null, waiting: null, dropped: null, deleted: null, may_be_in: null,
  searched: null
}
const RECEIVED = '2026-01-02T03:04:06.000Z'
/** Traces are kept for 30 days. */
const AGAIN = new Date(Date.now() - 3_600_000).toISOString()
const TOKEN = 'stream:live.3:44-47@one,two'

const trace = (overrides: Partial<EventTrace>): Record<string, unknown> => toTraceRow({
  projectId: 1, uuid: randomUUID(), kind: 'duplicate', at: Date.parse(AGAIN), process: 'one', reason: '',
  partition: '', sequence: 0, row: 0, distinctIdHash: '', ...overrides
})

t.test('says what became of an event', async (t) => {
  const [stored, refused, sampled, dropped] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
  const [deleted, unknown, waiting, gone] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
  const quarantined = randomUUID()
  const { client } = await createTestClickHouse(t)
  const { url, connection } = await plantDeadLetters(t, [
    { project: 1, uuid: refused }, { project: 1, uuid: unknown, stage: 'persons' }, { project: 2, uuid: unknown },
    { project: 1, uuid: quarantined, stage: 'schema', reason: 'not_met' }
  ])
  const api = await createTestApi(t, { clickhouse: client, nats: createNatsOnDemand({ url, logger }) })
  t.equal(api.projectId, 1)
  const row = { uuid: stored, event: 'paid', distinct_id: 'jo', timestamp: '2026-01-02 03:04:05.678', received_at: '2026-01-02 03:04:06.000' }
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: [{ ...row, project_id: 1, insert_token: TOKEN }, { ...row, project_id: 2, uuid: unknown }]
  })
  const sample = { receivedAt: Date.parse(RECEIVED), event: '', distinctId: 'd', lib: '', libVersion: '', value: '' }
  await client.insert({
    table: WARNINGS_TABLE,
    format: 'JSONEachRow',
    values: [
      toWarningRow('a', { projectId: 1, reason: 'missing_event_name', minute: Date.now(), count: 1, samples: [{ ...sample, uuid: sampled.toUpperCase() }] }),
      toWarningRow('a', { projectId: 1, reason: 'column_cut', minute: Date.now(), count: 1, samples: [{ ...sample, uuid: unknown }] })
    ]
  })
  const again = trace({ uuid: stored, partition: 'live.3', sequence: 51 })
  await client.insert({
    table: TRACES_TABLE,
    format: 'JSONEachRow',
    values: [
      again, again, trace({ uuid: stored, partition: 'live.3', sequence: 50, process: '' }), trace({ uuid: gone }),
      trace({ uuid: dropped, kind: 'dropped', reason: 'event_too_large' }), trace({ uuid: deleted, kind: 'deleted' }),
      trace({ uuid: unknown, kind: 'deleted', projectId: 2 })
    ]
  })
  const receipt = async (uuid: string): Promise<Record<string, any>> => (await api.call('GET', `~/events/${uuid}/receipt`)).body

  const { stored: found, duplicates, ...rest } = await receipt(stored.toUpperCase())
  const { stored: _stored, duplicates: _duplicates, ...others } = NOTHING
  t.strictSame(rest, { ...others, uuid: stored, fate: 'stored' })
  for (const form of [stored.replaceAll('-', ''), `%7B${stored}%7D`, `urn:uuid:${stored}`]) {
    t.match(await receipt(form), { fate: 'stored', uuid: stored }, 'as the SDK sent it')
  }
  t.match(await receipt(`${stored}0`), { attr: 'uuid' })
  const { inserted_at: insertedAt, ...event } = found
  t.strictSame(event, {
    event: 'paid', distinct_id: 'jo', timestamp: '2026-01-02T03:04:05.678Z', received_at: RECEIVED,
    received_by: ['one', 'two'], partition: 'live.3', first_sequence: 44, last_sequence: 47, insert_token: TOKEN
  })
  t.ok(Math.abs(Date.parse(insertedAt) - Date.now()) < 600_000, insertedAt)
  t.strictSame(duplicates, {
    count: 2,
    last: [
      { received_at: AGAIN, received_by: 'one', partition: 'live.3', sequence: 51 },
      { received_at: AGAIN, received_by: null, partition: 'live.3', sequence: 50 }
    ]
  })

  t.match(await receipt(refused), {
    ...NOTHING, fate: 'dead_letter', dead_letter: { id: 1, stage: 'writer', reason: 'refused', replayable: true }
  })
  t.match(await receipt(quarantined), { fate: 'dead_letter', dead_letter: { id: 4, stage: 'schema', reason: 'not_met', replayable: true } })
  t.strictSame(await receipt(sampled), {
    ...NOTHING, uuid: sampled, fate: 'dropped', dropped: { reason: 'missing_event_name', received_at: RECEIVED, received_by: 'a' }
  })
  t.strictSame(await receipt(dropped), {
    ...NOTHING, uuid: dropped, fate: 'dropped', dropped: { reason: 'event_too_large', received_at: AGAIN, received_by: 'one' }
  })
  t.strictSame(await receipt(deleted), {
    ...NOTHING, uuid: deleted, fate: 'deleted', deleted: { why: 'person', asked_at: AGAIN, kept_since: null, was_stored: true }
  })
  t.match(await receipt(gone), { fate: 'deleted', deleted: { why: 'unknown', was_stored: true } }, 'it came again after it was stored')
  t.strictSame(await receipt(unknown), {
    ...NOTHING, uuid: unknown, fate: 'unknown', may_be_in: [], searched: { messages: 0, of: 0 }
  }, 'nothing of other projects')

  await publishEvents(connection, [makeEvent({ project_id: 2, uuid: waiting })])
  const sequence = await publishEvents(connection, [makeEvent(), makeEvent({ uuid: waiting, event: 'late' })], {
    headers: { [HEADER.request]: '0123456789ab-2z' }
  })
  t.match(await receipt(waiting), {
    ...NOTHING,
    fate: 'waiting',
    waiting: { event: 'late', distinct_id: 'user-1', received_by: '0123456789ab', partition: 'live.0', sequence, messages_ahead: 1 },
    searched: { messages: 2, of: 2 }
  })
  t.match(await receipt(unknown), { fate: 'unknown', searched: { messages: 2, of: 2 } })

  const bucket = await openBucket(connection, INGEST_BUCKET, { replicas: 1 })
  const presence = { processId: 'spooling', at: Date.now(), inFlight: 0, spoolBytes: 9, spooledSince: Date.parse(AGAIN), publishedThrough: 0 }
  await bucket.put(presenceKey('a'), JSON.stringify(presence))
  await bucket.put(presenceKey('b'), JSON.stringify({ ...presence, processId: 'busy', spoolBytes: 0, spooledSince: null, inFlight: 2 }))
  await bucket.put(presenceKey('c'), JSON.stringify({ ...presence, processId: 'idle', spoolBytes: 0, spooledSince: null }))
  await bucket.put(presenceKey('d'), JSON.stringify({ ...presence, processId: 'dead', at: 0, spoolBytes: 0, spooledSince: null }))
  await bucket.put(presenceKey('e'), JSON.stringify(presence))
  await bucket.delete(presenceKey('e'))
  const { may_be_in: places } = await receipt(unknown)
  t.same(places.sort((a: { process: string }, b: { process: string }) => a.process < b.process ? -1 : 1), [
    { where: 'in_flight', process: 'busy', since: null }, { where: 'spool', process: 'dead', since: null },
    { where: 'spool', process: 'spooling', since: AGAIN }
  ])

  t.match(await api.call('GET', '~/events/none/receipt'), { status: 400, body: { attr: 'uuid' } })
  t.match(await api.call('GET', `~/events/${unknown}/receipt?timestamp=soon`), { status: 400, body: { attr: 'timestamp' } })
  t.match(await api.call('GET', `~/events/${stored}/receipt?timestamp=1000-01-01T00:00:00Z`), { body: { fate: 'stored' } }, 'a wrong time is a slower answer')

  await setRetention(api.sql, { what: 'events', projectId: 1, days: 30 })
  const old = '019437c1-7c1d-7e8f-9abc-def012345678'
  t.match(await receipt(old), { fate: 'deleted', deleted: { why: 'retention', was_stored: null, kept_since: /^\d{4}-\d\d-\d\d$/ } })
  t.match((await api.call('GET', `~/events/${unknown}/receipt?timestamp=2026-01-01T00:00:00Z`)).body, { fate: 'deleted' })
  t.match(await receipt(unknown), { fate: 'unknown' }, 'a uuid without a time')
})

t.test('lists the newest events of a distinct id, wherever they are', async (t) => {
  const { client } = await createTestClickHouse(t)
  const { url, connection } = await plantDeadLetters(t, [])
  const api = await createTestApi(t, { clickhouse: client, nats: createNatsOnDemand({ url, logger }) })
  const time = (minute: number): string => new Date(Date.now() - minute * 60_000).toISOString().slice(0, 23)
  const [kept, older, other, dropped, waiting] = [randomUUID(), randomUUID(), randomUUID(), randomUUID(), randomUUID()]
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [[kept, 'jo', 5], [older, 'jo', 60 * 24 * 40], [other, 'ann', 1]].map(([uuid, distinctId, minute]) => ({
      project_id: 1, uuid, event: 'e', distinct_id: distinctId, timestamp: time(minute as number), received_at: time(minute as number)
    }))
  })
  await client.insert({
    table: TRACES_TABLE,
    format: 'JSONEachRow',
    values: [trace({ uuid: dropped, kind: 'dropped', reason: 'not_storable', at: Date.now() - 120_000, distinctIdHash: hashDistinctId('jo') }), trace({ uuid: kept })]
  })
  await publishEvents(connection, [makeEvent({ distinct_id: 'ann' }), makeEvent({ uuid: waiting, distinct_id: 'jo' })])
  const list = async (query: string): Promise<string[][]> =>
    (await api.call('GET', `~/receipts?${query}`)).body.results.map(({ uuid, fate, duplicates }: Record<string, any>) => [uuid, fate, duplicates?.count])

  t.same(await list('distinct_id=jo'), [
    [waiting, 'waiting', undefined], [dropped, 'dropped', undefined], [kept, 'stored', 1], [older, 'stored', 0]
  ])
  t.same(await list('distinct_id=jo&limit=3'), (await list('distinct_id=jo')).slice(0, 3))
  t.same(await list('distinct_id=nobody'), [])
  t.match(await api.call('GET', '~/receipts'), { status: 400, body: { attr: 'distinct_id' } })
  t.match(await api.call('GET', '~/receipts?distinct_id=jo&limit=1000'), { status: 400, body: { attr: 'limit' } })
})

t.test('answers for stored events without NATS; for no event while a store that may have it is unavailable', async (t) => {
  const [stored, unknown] = [randomUUID(), randomUUID()]
  const { client } = await createTestClickHouse(t)
  const nats = createNatsOnDemand({ url: `nats://127.0.0.1:${await freePort()}`, logger })
  const api = await createTestApi(t, { clickhouse: client, nats })
  const time = '2026-01-02 03:04:05.678'
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: [{ project_id: api.projectId, uuid: stored, event: 'e', distinct_id: 'd', timestamp: time, received_at: time }]
  })

  t.match(await api.call('GET', `~/events/${stored}/receipt`), { status: 200, body: { fate: 'stored', stored: { partition: null, received_by: [] } } })
  t.match(await api.call('GET', `~/events/${unknown}/receipt`), { status: 503, body: { code: 'stream_unavailable' } })

  const gone = connectClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(async () => await gone.close())
  const without = await createTestApi(t, { clickhouse: gone, nats })
  t.match(await without.call('GET', `~/events/${stored}/receipt`), { status: 503, body: { code: 'clickhouse_unavailable' } })
})
