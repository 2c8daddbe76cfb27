import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { compileSchema } from '../../../engines/json-schema/compile-schema.ts'
import { randomProperties } from '../../../engines/json-schema/testing/random-schemas.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import type { InferredSchema } from './event-schema.ts'
import { inferSchema } from './infer-schema.ts'

const { client } = await createTestClickHouse(t)
const now = Date.UTC(2026, 10, 21, 12)

async function infer (events: readonly object[], includeSdk = false): Promise<InferredSchema> {
  const event = randomUUID()
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: events.map((properties) => ({
      project_id: 1, uuid: randomUUID(), event, distinct_id: 'd', timestamp: '2026-11-21 11:00:00.000', received_at: '2026-11-21 11:00:00.000',
      properties: JSON.stringify(properties)
    }))
  })
  return await inferSchema(client, { projectId: 1, event, days: 1, limit: 100_000, includeSdk, now })
}

t.test('names, types, what all events have, and the values of what has few', async (t) => {
  const events = Array.from({ length: 40 }, (_, index) => ({
    plan: index % 2 === 0 ? 'free' : 'pro', seats: index, share: index / 2, note: `${index}`, $lib: 'web',
    coupon: index % 2 === 0 ? null : 'X', list: [index], deep: { a: 1 }, ...index > 0 && { late: true },
    ['__proto__']: 1, '': 1, ['n'.repeat(201)]: 1, 'nul\0': 1
  }))

  t.same(await infer(events), {
    events: 40,
    schema: {
      type: 'object',
      required: ['coupon', 'deep', 'list', 'note', 'plan', 'seats', 'share'],
      properties: {
        coupon: { type: ['null', 'string'], enum: ['X', null] },
        deep: { type: 'object' },
        late: { type: 'boolean' },
        list: { type: 'array' },
        note: { type: 'string' },
        plan: { type: 'string', enum: ['free', 'pro'] },
        seats: { type: 'integer' },
        share: { type: 'number' }
      }
    },
    properties: [
      { name: 'coupon', events: 40, types: ['null', 'string'] }, { name: 'deep', events: 40, types: ['object'] },
      { name: 'list', events: 40, types: ['array'] }, { name: 'note', events: 40, types: ['string'] },
      { name: 'plan', events: 40, types: ['string'] }, { name: 'seats', events: 40, types: ['integer'] },
      { name: 'share', events: 40, types: ['integer', 'number'] }, { name: 'late', events: 39, types: ['boolean'] }
    ]
  })
  t.match((await infer(events, true)).schema, { required: ['$lib'], properties: { $lib: { enum: ['web'] } } })
  t.same((await infer([])).schema, { type: 'object', properties: {} })
})

t.test('a draft has no values that are rare, long, many or no texts', async (t) => {
  const of = async (values: readonly unknown[]): Promise<unknown> => (await infer(values.map((a) => ({ a })))).schema['properties']

  t.same(await of(Array(9).fill('x')), { a: { type: 'string' } })
  t.same(await of(Array(10).fill('x')), { a: { type: 'string', enum: ['x'] } })
  t.same(await of(Array(10).fill('x'.repeat(101))), { a: { type: 'string' } })
  t.same(await of([...Array(10).fill('x'), 1]), { a: { type: ['integer', 'string'] } })
  t.same(await of(Array(10).fill('nul\0')), { a: { type: 'string' } }, 'a schema with a NUL would be refused')
  t.same(await of(Array(10).fill(null)), { a: { type: 'null' } })
  t.same(await of(Array.from({ length: 1100 }, (_, index) => String(index % 11))), { a: { type: 'string' } })
})

t.test('every event meets the draft that was made from it', async (t) => {
  const batches = fc.sample(fc.array(randomProperties, { minLength: 1, maxLength: 60 }), { numRuns: 20, seed: 1 })
  for (const events of batches) {
    const { schema } = await infer(events, true)
    const { check } = compileSchema(schema)
    for (const properties of events) {
      const stored = JSON.parse(JSON.stringify(properties)) as Record<string, unknown>
      t.equal(check(stored, 'stored'), null, JSON.stringify(stored).slice(0, 200))
    }
  }
})

t.test('many and hostile names make a draft that can be stored', async (t) => {
  const { schema, properties } = await infer(Array.from({ length: 30 }, (_, event) =>
    Object.fromEntries(Array.from({ length: 400 }, (_, index) => [`${event}/${index}~`.repeat(12), 'x'.repeat(90)]))))
  t.equal(properties.length, 200)
  compileSchema(schema)
  const names = Array.from({ length: 100 }, (_, index) => `\u0001${index}`.repeat(50))
  const long = await infer(Array.from({ length: 100 }, (_, event) =>
    Object.fromEntries(names.map((name) => [name, `\u0002${event % 10}`.repeat(50)]))))
  compileSchema(long.schema)
  t.ok(long.properties.length > 2)
})
