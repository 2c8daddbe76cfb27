import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import type { WarningsMessage } from '../../schema/wire/ingestion-warnings.ts'
import { WARNINGS_STREAM } from '../../schema/wire/streams.ts'
import { storePublishedFrames, takeMessages } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest, type TestIngest } from '../testing/start-test-ingest.ts'

const LIMITS = { MILLRACE_MAX_NEW_EVENT_NAMES: '20', MILLRACE_MAX_NEW_PROPERTIES: '50', MILLRACE_MAX_NEW_EVENT_PROPERTIES: '100' }

const FLOOD = 200
const PROPERTIES = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`p${index}`, 1]))

/** Makes a body large, so that a thread takes it. */
const PADDING = 'x'.repeat(2_000_000)

interface Path {
  name: string
  send: (ingest: TestIngest, batch: object[]) => Promise<Response>
}

const PATHS: Path[] = [
  { name: 'small', send: async (ingest, batch) => await ingest.post('/batch/', { api_key: PROJECT_KEY, batch }) },
  {
    name: 'large',
    send: async (ingest, batch) => await ingest.post('/batch/', gzipSync(JSON.stringify({ api_key: PROJECT_KEY, batch, padding: PADDING })),
      { headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' } })
  }
]

for (const { name, send } of PATHS) {
  t.test(`a flood of names in ${name} bodies is stored and counted, bounded in the views, and crowds out no known name`, async (t) => {
    const [ingest, clickhouse] = await Promise.all([startTestIngest(t, LIMITS), createTestClickHouse(t)])
    const { sql } = ingest.postgres
    await sql`INSERT INTO event_definitions (project_id, name) VALUES (1, 'paid')`
    await sql`INSERT INTO event_properties (project_id, event, property) VALUES (1, 'paid', 'amount')`
    const event = (event: string, properties: object): object => ({ event, distinct_id: 'd', uuid: randomUUID(), properties })
    const rows = async (query: string): Promise<any[]> => {
      await storePublishedFrames(ingest.connection, clickhouse)
      return await (await clickhouse.client.query({ query, format: 'JSONEachRow' })).json()
    }

    const flood = Array.from({ length: FLOOD }, (_, index) => event(`flood ${index}`, PROPERTIES))
    t.equal((await send(ingest, flood)).status, 200)

    t.same(await rows("SELECT toUInt32(count()) AS stored, toUInt32(countIf(JSONHas(properties, 'p9'))) AS whole FROM events"),
      [{ stored: FLOOD, whole: FLOOD }])
    t.same(await rows('SELECT toUInt32(count()) AS pairs, toUInt32(uniqExact(event)) AS events FROM event_properties'),
      [{ pairs: 100, events: 10 }])
    const messages = await takeMessages(ingest.connection, WARNINGS_STREAM)
    const totals = messages.flatMap((message) => message.json<WarningsMessage>().totals)
    t.match(totals, [{
      reason: 'too_many_names', count: FLOOD - 10,
      samples: [{ event: 'flood 10', value: 'the property p0' }, { event: 'flood 11' }, { event: 'flood 12' }]
    }])

    // Ingest has asked Postgres for known names; the answer comes after the flood.
    await waitFor(async () => {
      await send(ingest, [event('paid', { amount: 5, p0: 1, new: 1 })])
      const [found] = await rows("SELECT groupUniqArray(property) AS described FROM event_properties WHERE event = 'paid'")
      return found.described.includes('amount') && !found.described.includes('new')
    })
  })
}
