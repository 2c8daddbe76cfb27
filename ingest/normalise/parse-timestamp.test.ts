import t from 'tap'
import { parseTimestamp } from './parse-timestamp.ts'

const TIME = Date.UTC(2026, 10, 21, 10, 0, 5)

const readable: [unknown, number][] = [
  ['2026-11-21T10:00:05.000Z', TIME],
  ['2026-11-21T10:00:05Z', TIME],
  ['2026-11-21T10:00:05.123456Z', TIME + 123.456],
  ['2026-11-21T10:00:05', TIME],
  ['2026-11-21 10:00:05', TIME],
  ['2026/11/21 10:00:05', TIME],
  ['2026-11-21T13:00:05+03', TIME],
  ['2026-11-21T13:00:05+03:00', TIME],
  ['2026-11-21T13:00:05 +0300', TIME],
  ['2026-11-21T04:30:05-05:30', TIME],
  ['2026-11-21T10:00:05 UTC', TIME],
  [' 2026-11-21T10:00:05.000z ', TIME],
  ['2026-11-21', Date.UTC(2026, 10, 21)],
  ['2026-11-21T10:00', TIME - 5000],
  ['Sat, 21 Nov 2026 10:00:05 GMT', TIME],
  ['Sat, 21 Nov 2026 12:00:05 +0200', TIME],
  ['21 Nov 2026 10:00:05', TIME],
  [TIME, TIME],
  [TIME / 1000, TIME],
  [String(TIME), TIME],
  [String(TIME / 1000), TIME],
  [TIME * 1000, TIME],
  ['2016-12-31T23:59:60Z', Date.UTC(2017, 0, 1)],
  ['1970-01-01T00:00:00Z', 0]
]

for (const [value, time] of readable) {
  t.test(`reads ${JSON.stringify(value)}`, async (t) => {
    t.equal(parseTimestamp(value), time)
  })
}

const unreadable = ['', 'yesterday', 'item 1', '1', '2026-13-01', '2026-02-30', '2026-11-21T25:00:00Z', '2026-11-21T10:61:00Z',
  '21-11-2026', 'x'.repeat(1e6), null, true, {}, [], NaN, Infinity, -5, 0]

for (const value of unreadable) {
  t.test(`does not read ${JSON.stringify(value)?.slice(0, 30)}`, async (t) => {
    t.equal(parseTimestamp(value), null)
  })
}
