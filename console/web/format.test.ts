import t from 'tap'
import { clockAhead, formatAgo, formatBytes, formatCount, formatCounted, formatMs, formatRate, formatSeconds, formatTime, formatUtc, formatZoned, showNumber, showText, UNKNOWN, zone } from './format.ts'

t.test('numbers', async (t) => {
  t.same([0, 1234567, null].map(formatCount), ['0', '1,234,567', UNKNOWN])
  t.same([0, 0.25, 9.96, 18_400.4, null].map(formatRate), ['0', '0.3', '10.0', '18,400', UNKNOWN])
  t.same([0, 999, 1000, 1_500_000_000, 2.5e17, null].map(formatBytes), ['0 B', '999 B', '1.0 KB', '1.5 GB', '250 PB', UNKNOWN])
})

t.test('a number and its noun agree', async (t) => {
  t.same([0, 1, 1234, null].map((value) => formatCounted(value, 'message')), ['0 messages', '1 message', '1,234 messages', `${UNKNOWN} messages`])
  t.equal(formatCounted(1, 'query', 'queries'), '1 query')
  t.equal(formatCounted(2, 'query', 'queries'), '2 queries')
})

t.test('durations and times', async (t) => {
  t.same([3.21, 450.4, 1200, null].map(formatMs), ['3.2 ms', '450 ms', '1.2 s', UNKNOWN])
  t.same([0.44, 48.2, 300, 7200, 86_400 * 12].map(formatSeconds), ['0.4 s', '48 s', '5 min', '2 h', '12 days'])
  const now = Date.parse('2026-11-22T15:00:00Z')
  t.equal(formatAgo('2026-11-22T14:55:00Z', now), '5 min ago')
  t.equal(formatAgo('2026-11-22T15:00:01Z', now), 'just now', 'a clock that is ahead')
  t.equal(formatAgo(null, now), 'never')
  t.equal(formatTime('2026-11-22T14:55:00.123Z'), '2026-11-22 14:55:00')
  t.equal(formatTime('2026-11-22T04:05:06.123Z', 3), '2026-11-22 04:05:06.123')
  t.same([formatTime(null), formatZoned(null), formatUtc(null)], [UNKNOWN, UNKNOWN, UNKNOWN])
})

t.test('times in the zone that is shown, over the change of summer time, and in UTC', async (t) => {
  t.teardown(() => { zone.value = 'UTC' })
  zone.value = 'Europe/Berlin'
  t.equal(formatZoned('2026-10-25T00:30:00Z'), '2026-10-25 02:30:00 Berlin')
  t.equal(formatZoned('2026-10-25T01:30:00Z'), '2026-10-25 02:30:00 Berlin')
  t.equal(formatTime('2026-01-01T23:00:00Z'), '2026-01-02 00:00:00')
  t.equal(formatUtc('2026-10-25T01:30:00.5Z'), '2026-10-25 01:30:00 UTC')
  zone.value = 'America/Argentina/Buenos_Aires'
  t.equal(formatZoned('2026-01-01T02:00:00.25Z', 3), '2025-12-31 23:00:00.250 Buenos Aires')
})

t.test('text of others changes nothing around it, and differing names differ in sight', async (t) => {
  t.equal(showText('paid'), 'paid')
  t.equal(showText('<b>paid</b>'), '<b>paid</b>', 'markup is text')
  t.equal(showText('pa\u202eid\u200b'), 'pa\\u{202e}id\\u{200b}')
  t.equal(showText('pa\u00a0id'), 'pa\\u{a0}id')
  t.equal(showText(' paid '), '␣paid␣')
  t.equal(showText('a\nb'), 'a\\u{a}b')
  t.equal(showText('x'.repeat(1_000_000)).length, 201)
  t.equal(showText('日本語'), '日本語')
})

t.test('a field for a number shows the text as typed until the number becomes another one', async (t) => {
  t.equal(showNumber(0, { text: '0.', value: 0 }), '0.', 'on the way to 0.5')
  t.equal(showNumber(100, { text: '', value: 100 }), '', 'the number is not written back into a cleared field')
  t.equal(showNumber(20, { text: '0.5', value: 0.5 }), '20', 'an earlier version was restored')
  t.equal(showNumber(100, undefined), '100')
})

t.test('a wrong clock is not an answer that took its time', async (t) => {
  const now = Date.parse('2026-11-22T12:00:00.900Z')
  const ahead = (date: string | null, tookMs = 100, known = 0): number => clockAhead(known, date, now - tookMs, now)

  t.equal(ahead('Sun, 22 Nov 2026 12:00:00 GMT'), 0)
  t.equal(ahead('Sun, 22 Nov 2026 11:59:30 GMT', 30_000), 0, 'a slow answer')
  t.equal(ahead('Sun, 22 Nov 2026 13:00:00 GMT'), 3_599_100, 'a clock that is behind')
  t.equal(ahead('Sun, 22 Nov 2026 11:00:00 GMT', 30_000), -3_600_900, 'a clock that is ahead, found by a slow answer')
  t.equal(ahead('Sun, 22 Nov 2026 11:00:00 GMT', 30_000, -3_600_000), -3_600_000, 'as known')
  t.same([null, 'x'].map((date) => ahead(date, 100, 5)), [5, 5])
})
