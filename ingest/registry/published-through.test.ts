import t from 'tap'
import { PublishedThrough } from './published-through.ts'

const START = 1_800_000_000_000

function create () {
  const state = { now: START, isSpoolEmpty: true }
  const through = new PublishedThrough(() => state.now, () => state.isSpoolEmpty)
  return { state, through, announce: (latest = Infinity): number => through.announce(latest) }
}

t.test('with nothing in flight, everything received before now is in the stream', async (t) => {
  const { state, announce } = create()
  state.now += 500
  t.equal(announce(), START + 500)
})

t.test('requests in flight hold the moment back to their span, until the last one ends', async (t) => {
  const { state, through, announce } = create()
  announce()
  state.now += 100
  const first = through.begin(through.receivedAt())
  const second = through.begin(through.receivedAt())
  state.now += 40
  const third = through.begin(through.receivedAt())
  t.equal(announce(), START + 100, 'the span began there')
  state.now += 60
  const later = through.begin(through.receivedAt())
  state.now += 100
  through.end(first)
  through.end(third)
  t.equal(announce(), START + 100)
  t.equal(through.inFlight, 2)
  through.end(second)
  t.equal(announce(), START + 200)
  through.end(later)
  t.equal(announce(), START + 300)
})

t.test('it stands still while something waits in the spool', async (t) => {
  const { state, through, announce } = create()
  const inFlight = through.begin(through.receivedAt())
  state.isSpoolEmpty = false
  through.end(inFlight)
  state.now += 60_000
  t.equal(announce(), 0)
  state.isSpoolEmpty = true
  t.equal(announce(), START + 60_000)
})

t.test('nothing is received before an announced moment, although the clock is set back', async (t) => {
  const { state, through, announce } = create()
  t.equal(announce(), START)
  state.now -= 3_600_000
  t.equal(through.receivedAt(), START)
  const inFlight = through.begin(through.receivedAt())
  t.equal(announce(), START)
  through.end(inFlight)
  state.now += 3_600_001
  t.equal(through.receivedAt(), START + 1)
})

t.test('a clock that was ahead of that of NATS is followed when it is set right', async (t) => {
  const { state, through, announce } = create()
  state.now += 172_800_000
  const inFlight = through.begin(through.receivedAt())
  t.equal(announce(START + 1000), START + 1000, 'not after the clock of NATS')
  through.end(inFlight)
  t.equal(announce(START + 2000), START + 2000)
  state.now = START + 2100
  const next = through.begin(through.receivedAt())
  t.equal(through.receivedAt(), START + 2100)
  t.equal(announce(START + 2200), START + 2100, 'a span that began in the future begins with its oldest request')
  through.end(next)
})

t.test('a process continues behind what was announced before it', async (t) => {
  const { state, through, announce } = create()
  state.isSpoolEmpty = false
  through.continueFrom(START - 5)
  through.raiseFloor(START + 50)
  t.equal(announce(), START - 5, 'something of the process before is still in the spool')
  t.equal(through.receivedAt(), START + 50)
  through.raiseFloor(START + 1e12)
  t.equal(through.receivedAt(), START, 'a floor years ahead is the error of another clock')
})
