import t from 'tap'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { clockLead, compareClocks } from './clocks.ts'

t.test('finds no difference between the clocks of one machine', async (t) => {
  const [{ client }, { sql }] = await Promise.all([createTestClickHouse(t), createTestPostgres(t)])
  const before = Date.now()

  const { nowMs, today, clockLeadMs } = await compareClocks(client, sql)

  t.equal(clockLeadMs, 0)
  t.ok(nowMs >= before && nowMs <= Date.now())
  t.match(today, /^\d{4}-\d\d-\d\d$/)
})

t.test('finds the smallest difference that fits the readings', async (t) => {
  for (const [beforeMs, nowMs, afterMs, lead] of [
    [1000.2, 1000, 1000.9, 0], [1000, 1500, 2000, 0], [1000, 1000, 9000, 0], [1000, 9000, 9000, 0],
    [1000, 6010, 1020, 4990], [6000, 1010, 6020, -4989], [1000.5, 1000, 1000.6, 0], [1000.5, 999, 1000.6, 0],
    [1000.5, 998, 1000.6, -1]
  ] as const) {
    t.equal(clockLead({ beforeMs, nowMs, afterMs }), lead, `${beforeMs} ${nowMs} ${afterMs}`)
  }
})
