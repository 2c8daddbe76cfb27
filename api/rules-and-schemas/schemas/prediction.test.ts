import t from 'tap'
import { compileSchema } from '../../../engines/json-schema/compile-schema.ts'
import { PredictionTally } from './check-stored-events.ts'

const { failuresOf } = compileSchema({ properties: { plan: { type: 'string' } }, additionalProperties: false })

t.test('failures are distinguished by the beginning of their path, however long the names are', async (t) => {
  const tally = new PredictionTally()
  const long = 'x'.repeat(1_000_000)
  const sent = [{ [long]: 1 }, { [`${long}y`]: 1 }, { plan: 1 }, { plan: 2 }]
    .map((properties) => failuresOf(properties, 'stored'))
  for (const [index, failures] of sent.entries()) {
    tally.add({ uuid: `uuid ${index}`, sdk: '["web","1"]' }, failures)
  }

  const { failures } = tally.describe(true)

  t.same(failures.map(({ samples, ...kind }) => ({ ...kind, uuids: samples.map(({ uuid }) => uuid) })), [
    { path: `/${'x'.repeat(499)}`, keyword: 'additionalProperties', events: 2, uuids: ['uuid 0', 'uuid 1'] },
    { path: '/plan', keyword: 'type', events: 2, uuids: ['uuid 2', 'uuid 3'] }
  ])
})
