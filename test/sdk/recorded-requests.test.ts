/**
 * What SDKs in other languages send, byte for byte, to one ingest with the API behind it: events, flags, definitions of
 * flags. `recorded/` has the requests, each SDK with its version and the files that they were written from.
 */
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { type StoredEvent, takePersonsUpdates, takePublishedEvents } from '../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'
import { readRecordedSdks, type RecordedRequest, replay, type Replayed } from './recorded-requests.ts'

const api = await createTestApi(t)
await api.app.listen({ host: '127.0.0.1', port: 0 })
const apiUrl = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`
const [clickhouse, { ingest, connection, metric }] = await Promise.all([
  createTestClickHouse(t), startTestIngest(t, { MILLRACE_API_URL: apiUrl })
])

const variants = [{ key: 'blue', rollout_percentage: 100 }]
for (const [key, filters] of Object.entries({
  beta: { groups: [{}] },
  colour: { groups: [{}], multivariate: { variants }, payloads: { blue: '{"shade":7}' } },
  pro: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }] }] },
  settings: { groups: [{}], payloads: { true: '{"max":5}' } }
})) await api.call('POST', '~/feature_flags', { key, filters })
await waitFor(async () => {
  const body = JSON.stringify({ api_key: api.projectKey, distinct_id: 'nobody' })
  const answer = await fetch(`${apiUrl}/flags/?v=2`, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  return Object.keys((await answer.json() as { flags: object }).flags).length === 4
})

/** What each question about flags must be answered with. */
const ANSWERS: Record<string, (request: RecordedRequest) => object> = {
  flags: ({ body }) => ({
    flags: {
      beta: { enabled: true, variant: null },
      colour: { enabled: true, variant: 'blue', metadata: { payload: '{"shade":7}' } },
      // Only by the property that the request brings: nobody of this name is stored.
      pro: { enabled: (JSON.parse(body) as { person_properties?: { plan?: string } }).person_properties?.plan === 'pro' }
    },
    errorsWhileComputingFlags: false
  }),
  'flags of older SDKs': () => ({ featureFlags: { beta: true, colour: 'blue', pro: false }, featureFlagPayloads: { colour: '{"shade":7}' } }),
  'flag definitions': () => ({ flags: ['beta', 'colour', 'pro', 'settings'].map((key) => ({ key })), group_type_mapping: {}, cohorts: {} }),
  configuration: () => ({ supportedCompression: ['gzip', 'gzip-js'], sessionRecording: false })
}

/** All are sent before any is looked at: reading the stream and the table once takes as long as for each. */
const outcomes: { request: RecordedRequest, title: string, startedAt: number, endedAt: number, answer: Replayed }[] = []
for (const { name, version, requests } of readRecordedSdks()) {
  for (const request of requests) {
    const startedAt = Date.now()
    const isAboutFlags = /^flag|^remote configuration$/.test(request.feature)
    const project = isAboutFlags ? api.projectKey : PROJECT_KEY
    const answer = await replay(ingest.port, request, { personal: api.key, project })
    outcomes.push({ request, title: `${name} ${version}: ${request.feature}`, startedAt, endedAt: Date.now(), answer })
  }
}
const rows = await takePublishedEvents(connection, clickhouse)

for (const { request, title, startedAt, endedAt, answer: { status, head, body } } of outcomes) {
  t.test(title, async (t) => {
    t.equal(status, 200)
    t.match(head, /^content-type: application\/json/im)
    if (request.stored.length > 0) t.same(body, { status: 1 })
    else if (request.feature === 'remote configuration') t.equal(body, '{"max":5}')
    else t.match(body, ANSWERS[request.feature]?.(request))
    compareStored(t, request, { startedAt, endedAt })
  })
}

interface Sent {
  uuid?: string
  properties: Record<string, unknown>
  $set?: object
}

/** Every event once, with its name, its user, its time, and every property that was sent. */
function compareStored (
  t: Test, { body, stored }: RecordedRequest, { startedAt, endedAt }: { startedAt: number, endedAt: number }
): void {
  for (const [i, { event, distinctId, time }] of stored.entries()) {
    const parsed = JSON.parse(body) as { batch?: Sent[] } & Sent
    const { uuid, properties, $set } = (parsed.batch ?? [parsed])[i]!
    const isIt = (row: StoredEvent): boolean =>
      uuid === undefined ? row.event === event && row.distinct_id === distinctId : row.uuid === uuid
    const found = rows.filter(isIt)
    t.match(found, [{ event, distinct_id: distinctId }])
    t.equal(found.length, 1)
    t.match(JSON.parse(found[0]?.properties ?? '{}'), { ...properties, ...($set !== undefined && { $set }) }, event)
    const storedAt = Number(found[0]?.time_ms)
    if ('at' in time) t.equal(storedAt, time.at)
    else {
      const happenedAt = storedAt + time.msBeforeSending
      t.ok(happenedAt >= startedAt && happenedAt <= endedAt, 'corrected by the time of sending')
    }
  }
}

t.test('no SDK of a server writes the system of the server over that of a person', async (t) => {
  const updates = JSON.stringify(await takePersonsUpdates(connection))
  t.ok(rows.some(({ properties }) => properties.includes('"$os":"Linux"')), 'some send it')
  t.match(updates, '"plan":"pro"')
  t.notMatch(updates, /"\$(?:initial_)?os/)
})

t.test('nothing else was stored, and no event dropped', async (t) => {
  t.equal(rows.length, outcomes.reduce((sum, { request }) => sum + request.stored.length, 0))
  for (const reason of ['missing_event_name', 'missing_distinct_id', 'invalid_timestamp', 'invalid_properties']) {
    t.equal(await metric(`millrace_ingest_events_dropped_total{reason="${reason}"}`), 0, reason)
  }
})

t.end()
