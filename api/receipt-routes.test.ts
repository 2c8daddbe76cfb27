import { randomUUID } from 'node:crypto'
import { jetstream } from '@nats-io/jetstream'
import t from 'tap'
import { connectClickHouse } from '../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../platform/logger.ts'
import { toWarningRow, WARNINGS_TABLE } from '../schema/ingestion-warnings.ts'
import { eventsSubject } from '../schema/streams.ts'
import { freePort } from '../test/support/local-ports.ts'
import { createTestClickHouse } from '../test/support/test-stores.ts'
import { createNatsOnDemand } from './dead-letters/nats-on-demand.ts'
import { createTestApi } from './testing/create-test-api.ts'
import { plantDeadLetters } from './testing/plant-dead-letters.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const [stored, refused, dropped, unknown] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
const NOTHING = { stored: null, dead_letter: null, dropped: null, messages_waiting: null }

t.test('says what became of an event', async (t) => {
  const { client } = await createTestClickHouse(t)
  const { url, connection } = await plantDeadLetters(t, [
    { project: 1, uuid: refused }, { project: 1, uuid: unknown, stage: 'persons' }, { project: 2, uuid: unknown }
  ])
  const api = await createTestApi(t, { clickhouse: client, nats: createNatsOnDemand({ url, logger }) })
  t.equal(api.projectId, 1)
  const row = { uuid: stored, event: 'paid', distinct_id: 'jo', timestamp: '2026-01-02 03:04:05.678', received_at: '2026-01-02 03:04:06.000' }
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: [{ ...row, project_id: 1 }, { ...row, project_id: 2, uuid: unknown }]
  })
  const sample = { receivedAt: Date.now(), event: '', distinctId: 'd', lib: '', libVersion: '', value: '' }
  const minute = Date.now() - Date.now() % 60_000
  await client.insert({
    table: WARNINGS_TABLE,
    format: 'JSONEachRow',
    values: [
      toWarningRow('a', { projectId: 1, reason: 'missing_event_name', minute, count: 1, samples: [{ ...sample, uuid: dropped.toUpperCase() }] }),
      toWarningRow('a', { projectId: 1, reason: 'column_cut', minute, count: 1, samples: [{ ...sample, uuid: unknown }] })
    ]
  })
  const receipt = async (uuid: string): Promise<Record<string, any>> => (await api.call('GET', `~/events/${uuid}/receipt`)).body

  const { stored: found, ...rest } = await receipt(stored.toUpperCase())
  t.strictSame(rest, { uuid: stored, fate: 'stored', dead_letter: null, dropped: null, messages_waiting: null })
  const { inserted_at: insertedAt, ...event } = found
  t.strictSame(event, { event: 'paid', distinct_id: 'jo', timestamp: '2026-01-02T03:04:05.678Z', received_at: '2026-01-02T03:04:06.000Z' })
  t.ok(Math.abs(Date.parse(insertedAt) - Date.now()) < 60_000, insertedAt)

  t.match(await receipt(refused), {
    ...NOTHING, fate: 'dead_letter', dead_letter: { id: 1, stage: 'writer', reason: 'refused', replayable: true }
  })
  t.strictSame(await receipt(dropped), {
    ...NOTHING, uuid: dropped, fate: 'dropped', dropped: { reason: 'missing_event_name', minute: new Date(minute).toISOString().replace('.000Z', 'Z') }
  })
  t.strictSame(await receipt(unknown), { ...NOTHING, uuid: unknown, fate: 'not_found', messages_waiting: 0 }, 'nothing of other projects')
  await jetstream(connection).publish(eventsSubject('live', 0), 'on its way')
  t.match(await receipt(unknown), { fate: 'not_found', messages_waiting: 1 })
  t.match(await api.call('GET', '~/events/none/receipt'), { status: 400, body: { attr: 'uuid' } })
})

t.test('answers for stored events without NATS; for no event while a store that may have it is unavailable', async (t) => {
  const { client } = await createTestClickHouse(t)
  const nats = createNatsOnDemand({ url: `nats://127.0.0.1:${await freePort()}`, logger })
  const api = await createTestApi(t, { clickhouse: client, nats })
  const time = '2026-01-02 03:04:05.678'
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: [{ project_id: api.projectId, uuid: stored, event: 'e', distinct_id: 'd', timestamp: time, received_at: time }]
  })

  t.match(await api.call('GET', `~/events/${stored}/receipt`), { status: 200, body: { fate: 'stored' } })
  t.match(await api.call('GET', `~/events/${unknown}/receipt`), { status: 503, body: { code: 'stream_unavailable' } })

  const gone = connectClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(async () => await gone.close())
  const without = await createTestApi(t, { clickhouse: gone, nats })
  t.match(await without.call('GET', `~/events/${stored}/receipt`), { status: 503, body: { code: 'clickhouse_unavailable' } })
})
