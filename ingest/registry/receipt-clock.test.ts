import t from 'tap'
import { ReceiptClock } from './receipt-clock.ts'

const START = 1_800_000_000_000
const TWO_DAYS = 172_800_000

function create () {
  const state = { host: START, monotonic: 5 }
  const clock = new ReceiptClock({ now: () => state.host, monotonic: () => state.monotonic })
  /** Time passes, and the clock of the host jumps besides. */
  const pass = (ms: number, jumpMs = 0): number => {
    state.monotonic += ms
    state.host += ms + jumpMs
    return clock.now()
  }
  /** The clock of NATS says what the host would say without the jumps so far. */
  const compare = (natsAheadMs = 0): void => clock.compare(START - 5 + natsAheadMs)
  return { clock, pass, compare }
}

t.test('small steps of the clock are followed', async (t) => {
  const { clock, pass, compare } = create()
  compare()
  t.equal(pass(1000), START + 1000)
  t.equal(pass(1000, -50_000), START - 48_000)
  t.equal(pass(1000, 59_000), START + 12_000)
  t.notOk(clock.hasDiverged)
})

t.test('a jump away from the clock of NATS is not followed, there and back', async (t) => {
  const { clock, pass, compare } = create()
  compare()
  t.equal(pass(1000, TWO_DAYS), START + 1000)
  t.ok(clock.hasDiverged)
  t.equal(pass(500), START + 1500)
  t.equal(pass(500, -TWO_DAYS), START + 2000)
  t.notOk(clock.hasDiverged)
  t.equal(pass(500, -3_600_000), START + 2500)
})

t.test('a jump towards the clock of NATS is followed, as when a host that was wrong is set right', async (t) => {
  const { pass, compare } = create()
  compare(TWO_DAYS + 40)
  t.equal(pass(1000, TWO_DAYS), START + 1000 + TWO_DAYS)
})

t.test('after a machine was suspended, NATS is compared again and followed', async (t) => {
  const { clock, pass, compare } = create()
  compare()
  t.equal(pass(1000, 3_600_000), START + 1000)
  compare(3_600_000)
  t.equal(pass(1000), START + 3_602_000)
  t.notOk(clock.hasDiverged)
})

t.test('without NATS the host is believed', async (t) => {
  t.equal(create().pass(1000, TWO_DAYS), START + 1000 + TWO_DAYS)
})
