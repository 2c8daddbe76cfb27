import t from 'tap'
import { createTestClickHouse, type TestClickHouse } from '../../../test/support/test-stores.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type CheckQuery, checkStoredEvents } from './check-stored-events.ts'
import { compileSchema } from '../../../engines/json-schema/compile-schema.ts'

const NOW = Date.UTC(2026, 10, 21)
const QUERY: CheckQuery = { projectId: 1, event: 'e', days: 2, limit: 1e6, now: NOW }

/** Events whose `n` is their number and a text, and whose `plan` has few values. */
async function storeEvents (t: TestContext, events: number): Promise<TestClickHouse> {
  const clickhouse = await createTestClickHouse(t)
  await clickhouse.client.command({
    query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, properties, property_types)
      SELECT 1, generateUUIDv4(number), 'e', 'd', fromUnixTimestamp64Milli({now: Int64} - toInt64(number)),
        concat('{"n":"', toString(number), '","plan":"', if(number % 10 = 0, 'pro', 'free'), '"}'), 'eSn\\0eSplan'
      FROM numbers({events: UInt32})`,
    query_params: { now: NOW - 1000, events }
  })
  return clickhouse
}

/** The same client, which notes what it is asked, or is refused. */
function watch (client: ClickHouse, onQuery: (query: string) => Error | undefined): ClickHouse {
  const query = async (params: { query: string }): Promise<unknown> => {
    const refused = onQuery(params.query)
    if (refused !== undefined) throw refused
    return await client.query(params)
  }
  return Object.create(client, { query: { value: query } }) as ClickHouse
}

t.test('texts that all differ are counted by what a pattern says of them', async (t) => {
  const { client } = await storeEvents(t, 30_000)
  const asked: string[] = []
  const watched = watch(client, (query) => { asked.push(query); return undefined })

  const compiled = compileSchema({
    properties: { n: { pattern: '^[1-9][0-9]{0,3}$' }, plan: { enum: ['free', 'pro'] } }
  })
  const predicted = await checkStoredEvents(watched, compiled, QUERY)

  t.match(predicted, { events: 30_000, failed: 20_001, failures: [{ path: '/n', keyword: 'pattern', events: 20_001 }] })
  t.equal(asked.filter((query) => /'1'/.test(query)).length, 0, 'none is judged by itself')
})

t.test('events are judged one by one when ClickHouse does not understand a pattern', async (t) => {
  const { client } = await storeEvents(t, 100)
  const refused = await client.query({ query: "SELECT match(materialize('a'), '(')" })
    .then(() => undefined, (error: Error) => error)
  t.match(refused, { code: '427' })
  let refusals = 0
  const refusing = watch(client, (query) => / AS key_0/.test(query) && ++refusals > 0 ? refused : undefined)

  const compiled = compileSchema({ properties: { n: { pattern: '^[1-9]' }, plan: { const: 'free' } } })
  const predicted = await checkStoredEvents(refusing, compiled, QUERY)

  t.match(predicted, { events: 100, failed: 10 })
  t.ok(refusals > 0)
})

t.test('a pattern that ClickHouse would read in another way is not asked of it', async (t) => {
  const { client } = await storeEvents(t, 25_000)
  const asked: string[] = []
  const watched = watch(client, (query) => { asked.push(query); return undefined })

  const compiled = compileSchema({ properties: { n: { pattern: '^\\p{Nd}{1,4}$' } } })
  const predicted = await checkStoredEvents(watched, compiled, QUERY)

  t.match(predicted, { events: 25_000, failed: 15_000 })
  t.equal(asked.filter((query) => query.includes('Nd')).length, 0)
})

t.test('schemas as large as can be are checked', async (t) => {
  const { client } = await storeEvents(t, 100)
  const names = Array.from({ length: 64 }, (_, index) => `${index}`.padEnd(200, '\'(.*)'))
  const texts = Array.from({ length: 60 }, (_, index) => `'${index}''`)
  const many = { enum: texts.slice(0, 20), minLength: 1, maxLength: 20, pattern: '^a', minimum: 0, items: {} }
  for (const schema of [{ enum: texts }, many]) {
    const properties = Object.fromEntries(names.map((name) => [name, schema]))
    const compiled = compileSchema({ properties, required: names.slice(0, 30) })
    const predicted = await checkStoredEvents(client, compiled, QUERY)
    t.match(predicted, { events: 100, failed: 100 })
  }
})
