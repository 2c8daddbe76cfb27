import t from 'tap'
import { BlockEncoder } from '../../ingest/frames/block-encoder.ts'
import { compileSchema } from '../../engines/json-schema/compile-schema.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { checkPrediction } from './check-prediction.ts'
import { createEnforcement, insertBlock, type SchemaUnderTest } from './enforcement.ts'
import { explainDifference } from './explain-difference.ts'
import { makeEvents } from './random-traffic.ts'

/** A million: `npm run check:prediction`. */
const EVENTS = 4000
const SIZE = { events: EVENTS, schemas: 24, rules: 16 }

t.test('what the looks back predict is what ingest does, event by event and in all counts', async (t) => {
  const { counts, compared, differences } = await checkPrediction(await createTestClickHouse(t), { ...SIZE, seed: 24 })

  t.same(differences, [])
  t.equal(compared, 2 * SIZE.schemas + SIZE.rules)
  for (const [fate, count] of Object.entries(counts)) t.ok(count > EVENTS / 100, `${fate}: ${count}`)
})

t.test('one stored event that was changed is found and named', async (t) => {
  const size = { ...SIZE, rules: 1 }
  const { differences } = await checkPrediction(await createTestClickHouse(t), { ...size, seed: 24, tamper: true })

  const [first = ''] = differences
  t.match(first, /^seed 24, schema of \w+: \{/)
  t.match(first, /enforced, .* predicted/)
  t.match(first, /\n {2}event \d+: .* enforced, .* predicted: \{"event":.*, stored as \{\}/)
})

t.test('events that are counted together although a schema tells them apart are found', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const traffic = { seed: 24, events: 300, names: ['a'] }
  const text = JSON.stringify({ properties: { a: { type: 'string', maxLength: 1 } } })
  const compiled = compileSchema(JSON.parse(text))
  const schema: SchemaUnderTest = { event: 'a', text, mode: 'observe', compiled }
  const { take } = createEnforcement([schema], [])
  const encoder = new BlockEncoder()
  for (const event of [...makeEvents(traffic)].flat()) encoder.append(take(event).raw.row)
  await insertBlock(clickhouse.url, encoder.finish())

  t.same(await explainDifference(clickhouse, schema, traffic), [], 'nothing is wrong with this one')
  // It says that it asks nothing, so all events are one class.
  const lying = { ...schema, compiled: { ...compiled, schema: {} } }
  const found = await explainDifference(clickhouse, lying, traffic)
  t.match(found[0], /^one of [1-3] events: \{"event":"a".*\((met|\/a (type|maxLength))\)$/)
})
