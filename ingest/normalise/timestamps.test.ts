import t from 'tap'
import { EARLIEST_MS } from '../../engines/parse-timestamp.ts'
import { resolveTimestamp, type TimestampFacts } from './timestamps.ts'

const NOW = Date.UTC(2026, 10, 21, 12)
const SECOND = 1000
const HOUR = 3_600_000
const iso = (time: number): string => new Date(time).toISOString()

const cases: [string, Partial<TimestampFacts>, number, boolean?][] = [
  ['nothing said: time of receipt', {}, NOW],
  ['timestamp alone', { timestamp: iso(NOW - HOUR) }, NOW - HOUR],
  ['wrong clock, uuid not v7: corrected', { timestamp: iso(NOW - 5 * HOUR), sentAt: NOW - 5 * HOUR + SECOND }, NOW - SECOND],
  ['wrong clock of a v7 client, ahead: corrected', { timestamp: iso(NOW + HOUR), sentAt: NOW + HOUR, uuidTime: NOW + HOUR }, NOW],
  ['clock of a v7 client days behind: corrected', { timestamp: iso(NOW - 72 * HOUR), sentAt: NOW - 72 * HOUR, uuidTime: NOW - 72 * HOUR }, NOW],
  ['retry after 6 s: true time, not moved', { timestamp: iso(NOW - 7 * SECOND), sentAt: NOW - 6 * SECOND, uuidTime: NOW - 7 * SECOND }, NOW - 7 * SECOND],
  ['clock of a v7 client an hour behind, first attempt: corrected', { timestamp: iso(NOW - HOUR), sentAt: NOW - HOUR + SECOND, uuidTime: NOW - HOUR }, NOW - SECOND],
  ['a minute behind, of an SDK that renews sent_at: corrected', { timestamp: iso(NOW - 61 * SECOND), sentAt: NOW - 60 * SECOND, uuidTime: NOW - 61 * SECOND, lib: 'web' }, NOW - SECOND],
  ['the way of a request is no error of the clock', { timestamp: iso(NOW - 5 * SECOND), sentAt: NOW - 2 * SECOND, uuidTime: NOW - 5 * SECOND, lib: 'web' }, NOW - 5 * SECOND],
  ['an hour behind, third attempt with a new sent_at: corrected', { timestamp: iso(NOW - HOUR - 10 * SECOND), sentAt: NOW - HOUR, uuidTime: NOW - HOUR - 10 * SECOND, lib: 'web', retryCount: 2 }, NOW - 10 * SECOND],
  ['the same with an offset, which is that of the first attempt', { offset: 1500, sentAt: NOW - HOUR, uuidTime: NOW - HOUR - 10 * SECOND, lib: 'web', retryCount: 2 }, NOW - 10 * SECOND],
  ['offset of an SDK that tells retries, first attempt without sent_at', { offset: 2500, uuidTime: NOW - HOUR, lib: 'web' }, NOW - 2500],
  ['offset without sent_at, declared retry: time of the uuid', { offset: 2500, uuidTime: NOW - HOUR, lib: 'web', retryCount: 7 }, NOW - HOUR],
  ['retry after 2 h that tells it, with the first sent_at: true time', { retryCount: 9, timestamp: iso(NOW - 2 * HOUR), sentAt: NOW - 2 * HOUR, uuidTime: NOW - 2 * HOUR }, NOW - 2 * HOUR],
  ['back-dated by the caller, retried: as the caller says', { timestamp: iso(NOW - 500 * HOUR), sentAt: NOW - SECOND, uuidTime: NOW - SECOND }, NOW - 500 * HOUR],
  ['offset, first try', { offset: 2500, sentAt: NOW, uuidTime: NOW - 2500 }, NOW - 2500],
  ['offset, retried after a minute: time of the uuid', { offset: 2500, sentAt: NOW - 60 * SECOND, uuidTime: NOW - 62_500 }, NOW - 62_500],
  ['offset without sent_at, retried: time of the uuid', { offset: 2500, uuidTime: NOW - 62_500 }, NOW - 62_500],
  ['offset, no v7', { offset: 2500, sentAt: NOW - 60 * SECOND }, NOW - 2500],
  ['offset that is not a number', { offset: '5', timestamp: iso(NOW - HOUR) }, NOW - HOUR],
  ['unreadable: receipt, and kept', { timestamp: 'soon' }, NOW, true],
  ['no day of the calendar: receipt, and kept', { timestamp: '2026-02-30T10:00:00Z' }, NOW, true],
  ['empty: receipt', { timestamp: '' }, NOW],
  ['an object: receipt, and kept', { timestamp: {} }, NOW, true],
  ['22 h ahead: believed', { timestamp: iso(NOW + 22 * HOUR) }, NOW + 22 * HOUR],
  ['24 h ahead: receipt, and kept', { timestamp: iso(NOW + 24 * HOUR) }, NOW, true],
  ['2099: receipt, and kept', { timestamp: '2099-01-01T00:00:00Z' }, NOW, true],
  ['1970: earliest, and kept', { timestamp: '1970-01-01T00:00:00Z' }, EARLIEST_MS, true],
  ['fractions of a millisecond are cut', { timestamp: '2026-11-21T11:00:00.0009Z' }, NOW - HOUR]
]

for (const [name, facts, time, replaced = false] of cases) {
  t.test(name, async (t) => {
    const all = { timestamp: undefined, offset: undefined, uuidTime: null, sentAt: null, receivedAt: NOW, ...facts }
    t.same(resolveTimestamp(all), { time, replaced })
  })
}

t.test('the time of an event of an SDK does not depend on the try that arrives', async (t) => {
  const happened = NOW - 30 * SECOND
  for (const shape of [{ timestamp: iso(happened) }, { offset: 1000 }]) {
    const facts = { timestamp: undefined, offset: undefined, uuidTime: happened, sentAt: happened + SECOND, ...shape }
    const attempts = [[0, 0], [3, 0], [6, 0], [9, 0], [110, 0], [600, 7], [3600, 10]]
    const times = attempts.map(([seconds = 0, retryCount = 0]) =>
      resolveTimestamp({ ...facts, retryCount, receivedAt: happened + SECOND + seconds * SECOND }).time)
    t.same(new Set(times), new Set([happened]))
  }
})
