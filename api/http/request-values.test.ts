import t from 'tap'
import { isIsoDateTime, parseIsoDateTime } from './request-values.ts'

t.test('reads dates and date-times, as UTC when they name no zone', async (t) => {
  const cases: [string, string][] = [
    ['2026-01-02', '2026-01-02T00:00:00.000Z'], ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02T03:04', '2026-01-02T03:04:00.000Z'], ['2026-01-02 03:04:05.6', '2026-01-02T03:04:05.600Z'],
    ['2026-01-02T03:04:05.123456+02:00', '2026-01-02T01:04:05.123Z'], ['2026-01-02T03:04:05-0330', '2026-01-02T06:34:05.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'], ['1000-01-01', '1000-01-01T00:00:00.000Z']
  ]

  for (const [text, instant] of cases) t.equal(parseIsoDateTime(text)?.toISOString(), instant, text)
})

t.test('refuses dates that are not in the calendar', async (t) => {
  for (const text of ['', 'now', '2026', '2026-13-01', '2026-02-30', '2025-02-29', '2026-01-02T24:00:00Z', '2026-01-02T03:60Z',
    '2026-01-02T03:04:05+99:99', '1700000000', '02/01/2026', '0000-01-01', '0001-01-01', '0999-12-31', '2026-01-02T03:04:05Z; DROP']) {
    t.equal(isIsoDateTime(text), false, text)
  }
})
