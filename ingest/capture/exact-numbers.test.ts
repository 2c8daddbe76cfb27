import t from 'tap'
import { createTestClickHouse } from '../../test/support/create-test-clickhouse.ts'
import { storePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

/** Beyond 2^53, as databases of other languages number things. */
const ID = '9223372036854775807'

t.test('ids beyond 2^53 are stored with all their digits, of small bodies and large ones', async (t) => {
  const ingest = await startTestIngest(t)
  const clickhouse = await createTestClickHouse(t)
  const event = (name: string, filler: number): string =>
    `{"event":"${name}","distinct_id":${ID},"properties":{"order_id":${ID},"nested":[{"id":-${ID}}],"amount":12.5,"filler":"${'x'.repeat(filler)}"}}`

  for (const [name, filler, count] of [['small', 10, 2], ['large', 100_000, 30]] as const) {
    const body = `{"api_key":"${PROJECT_KEY}","batch":[${Array.from({ length: count }, () => event(name, filler)).join(',')}]}`
    t.equal((await ingest.post('/batch/', body)).status, 200)
  }

  const stored = await storePublishedEvents(ingest.connection, clickhouse)
  t.equal(stored.length, 32)
  for (const { properties, distinct_id: distinctId, property_types: types } of stored) {
    if (!properties.startsWith(`{"order_id":${ID},"nested":[{"id":-${ID}}],"amount":12.5,`)) t.fail(properties.slice(0, 100))
    if (distinctId !== ID) t.fail(String(distinctId))
    if (!String(types).startsWith('eNorder_id')) t.fail(String(types))
  }
})
