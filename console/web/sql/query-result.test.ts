import t from 'tap'
import { buildChart, chooseColumns, formatMark } from '../../../engines/charts/chart-model.ts'
import { type Column, formatValue, isNumeric, isTime, type Value } from '../../../engines/charts/result-values.ts'
import { describePosition, positionOf } from './query-result.ts'

t.test('values keep every digit', async (t) => {
  t.equal(formatValue('18446744073709551615', 'UInt64'), '18446744073709551615')
  t.equal(formatValue(0.1, 'Float64'), '0.1')
  t.equal(formatValue(null, 'Nullable(String)'), 'NULL')
  t.equal(formatValue(true, 'Bool'), 'true')
  t.equal(formatValue(['9007199254740993', null], 'Array(Nullable(Int64))'), '[9007199254740993, null]')
  t.equal(formatValue(['1', 'a"b'], 'Array(String)'), '["1", "a\\"b"]')
  t.equal(formatValue({ a: '1', b: ['2'] }, 'Map(String, Array(UInt64))'), '{"a": "1", "b": ["2"]}', 'a type with text keeps its quotes')
})

t.test('types of numbers and times are known, wrapped ones too', async (t) => {
  t.same(['UInt64', 'Nullable(Float32)', 'LowCardinality(Nullable(Int8))', 'Decimal(38, 2)', 'Int256'].map(isNumeric), [true, true, true, true, true])
  t.same(['String', 'Array(UInt8)', 'Date', 'IntervalDay', 'Tuple(UInt8)'].map(isNumeric), [false, false, false, false, false])
  t.same(['Date', 'DateTime64(3)', 'Nullable(DateTime)', "DateTime('UTC')", 'String'].map(isTime), [true, true, true, true, false])
})

t.test('a position in bytes becomes one in the text, with its line', async (t) => {
  const query = '-- ä\nSELECT 1 +, 2'
  const at = positionOf(query, { position: 17 })!

  t.equal(query[at], ',')
  t.equal(describePosition(query, at), 'line 2, column 11')
  t.equal(positionOf('SELECT 1 AS', { position: 12 }), 11, 'behind the end')
  t.equal(positionOf(query, { position: null }), null)
})

const COLUMNS: Column[] = [{ name: 'day', type: 'Date' }, { name: 'events', type: 'UInt64' }, { name: 'plan', type: 'String' }, { name: 'share', type: 'Float64' }]

t.test('a chart draws numbers along a time, else along words', async (t) => {
  t.same(chooseColumns(COLUMNS, { kind: 'line' }), { kind: 'line', x: 0, y: [1, 3] })
  t.same(chooseColumns(COLUMNS.slice(1), { kind: 'bar' }), { kind: 'bar', x: 1, y: [0, 2] })
  t.same(chooseColumns(COLUMNS, { kind: 'bar', x: 'plan', y: ['share'] }), { kind: 'bar', x: 2, y: [3] })
  t.same(chooseColumns(COLUMNS, { kind: 'bar', x: 'gone', y: ['gone'] }), { kind: 'bar', x: 0, y: [1, 3] }, 'a saved choice may be of another query')
  t.equal(chooseColumns([{ name: 'a', type: 'String' }], { kind: 'bar' }), null)
})

t.test('points stand in proportion to their times, and the axis takes in all values and zero', async (t) => {
  const rows: Value[][] = [['2026-03-01', '10', 'a', 0.5], ['2026-03-02', '87', 'b', null], ['2026-03-05', '42', 'c', -0.5]]

  const chart = buildChart(COLUMNS, rows, { kind: 'line', x: 0, y: [1, 3] })

  t.same(chart.places, [0, 0.25, 1])
  t.same(chart.series, [{ name: 'events', values: [10, 87, 42] }, { name: 'share', values: [0.5, null, -0.5] }])
  t.same(chart.marks, [-20, 0, 20, 40, 60, 80, 100])
  t.same([chart.from, chart.to], [-20, 100])
  t.same(buildChart(COLUMNS, [], { kind: 'line', x: 0, y: [1] }).marks.length > 1, true, 'nothing has an axis, too')
  for (const kind of ['bar', 'line'] as const) t.equal(buildChart(COLUMNS, Array.from({ length: 2100 }, (_, i) => ['2026-03-01', String(i), '', 0]), { kind, x: 0, y: [1] }).left, 100)
  t.same([formatMark(1_500_000), formatMark(0.25), formatMark(0)], ['1.5M', '0.25', '0'])
})
