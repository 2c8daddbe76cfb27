import t from 'tap'
import { type AlertCondition, isMet, namesWindow, outcomeOf, readNumber, refuseCondition } from './alert-windows.ts'

t.test('a condition is met, not met, or cannot be said', async (t) => {
  const met = (is: AlertCondition['is'], value: number, ...[now, before = null]: (number | null)[]): boolean | null => isMet({ is, value }, { value: now ?? null, before })
  t.same([met('above', 5, 6), met('above', 5, 5), met('below', 5, 4), met('below', 5, 5), met('below', 5, null)], [true, false, true, false, null])
  t.same([met('rises_by', 50, 15, 10), met('rises_by', 50, 14, 10), met('falls_by', 50, 5, 10), met('falls_by', 50, 6, 10)], [true, false, true, false])
  t.same([met('rises_by', 50, 15, 0), met('falls_by', 50, 0, null), met('rises_by', 50, null, 10)], [null, null, null])
  t.equal(outcomeOf({ is: 'below', value: 5 }, true, { value: null, before: null }), null, 'no number changes nothing')
})

t.test('numbers of results, and queries that name their window', async (t) => {
  const read = (type: string, ...cells: unknown[]): (number | null)[] => cells.map((cell) => readNumber(cell, type))
  t.same(read('String', '12', ' -1.5 ', '.5', '+1e3', 'nan', '-inf', undefined), [12, -1.5, 0.5, 1000, null, null, null])
  for (const type of ['UInt64', 'Nullable(Int8)', 'LowCardinality(Nullable(Float64))', 'Decimal(18, 4)', 'SimpleAggregateFunction(sum, UInt64)', 'Variant(String, UInt8)', 'FixedString(3)']) {
    t.same(read(type, 3, '12', null), [3, 12, null], type)
  }
  t.same(read('Bool', true, false), [1, 0])
  for (const text of ['', ' ', 'x', '0x10', '1_000', '1,5', '2026-05-11', '12 %', {}]) t.throws(() => readNumber(text, 'String'), /has a text that is not/, JSON.stringify(text))
  for (const type of ['Date', 'Nullable(DateTime64(3))', 'IntervalDay', 'UUID', 'Array(UInt8)', "Enum8('1' = 1)", 'Nullable(Nothing)', 'Map(String, UInt8)']) {
    t.throws(() => readNumber(null, type), /must be a number; it is of the type/, type)
  }
  t.ok(namesWindow('SELECT count() FROM events WHERE received_at >= {from:DateTime} AND received_at < { to : DateTime }'))
  t.notOk(namesWindow('SELECT {from:DateTime}'))
})

t.test('percentages that could never be reached, or always are, are refused', async (t) => {
  const refused = (is: AlertCondition['is'], ...values: number[]): boolean[] => values.map((value) => refuseCondition({ is, value }) !== null)
  t.same(refused('falls_by', 500, 100.1, 0, -1, 100, 0.5), [true, true, true, true, false, false])
  t.same(refused('rises_by', -50, 0, 0.5, 500), [true, true, false, false])
  t.same([...refused('above', -5, 0), ...refused('below', -5, 500)], [false, false, false, false])
})
