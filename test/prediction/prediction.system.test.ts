import t from 'tap'
import { createTestClickHouse } from '../support/test-stores.ts'
import { checkPrediction } from './check-prediction.ts'

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
