import t from 'tap'
import { ServerClockEstimate } from './ingest-entries.ts'

const START = Date.UTC(2026, 10, 23)

t.test('messages that come late do not make the clock slow', async (t) => {
  const clock = new ServerClockEstimate()
  clock.hear(START, 5)
  clock.hear(START + 995, 1010)
  // Stored at 2 s, delivered after an election.
  clock.hear(START + 2000, 12_000)

  t.equal(clock.now(12_000), START + 11_995)
  t.equal(clock.atLeast(12_000), START + 2000)

  clock.hear(START + 31_000, 31_005)
  clock.hear(START + 55_000, 62_000)
  t.equal(clock.now(62_000), START + 61_995, 'nor does the first one of a new span')
})

t.test('a clock that goes back is followed, ahead or not; for a minute ages are too large rather than too small', async (t) => {
  const clock = new ServerClockEstimate()
  clock.hear(START, 0)
  clock.hear(START + 3_600_000, 1000)
  t.equal(clock.now(1000), START + 3_600_000)

  clock.hear(START + 2000, 2000)
  t.equal(clock.now(2000), START + 3_601_000)
  t.equal(clock.atLeast(2000), START + 2000)

  clock.hear(START + 31_500, 31_500)
  clock.hear(START + 61_600, 61_600)
  t.equal(clock.now(61_600), START + 61_600)
})

t.test('nothing heard is the own clock', async (t) => {
  t.equal(new ServerClockEstimate().now(7), 7)
})
