import t from 'tap'
import { type AlertCondition, comparesWeeks, outcomeOf, WINDOW_MS } from '../../../engines/questions/alert-windows.ts'
import { createRandom } from '../../../test/support/random.ts'
import { windowAt } from '../window-task.ts'

const HOUR = WINDOW_MS.hour
const RUNS = 1000

/**
 * A series of events with planted hours, some of which arrive late, and a watermark that stands still now and then.
 * Each look evaluates what is closed, as `pipeline/windows/run-closed-windows.ts` does.
 */
function simulate (seed: number): { found: string[], planted: string[], incomplete: number } {
  const random = createRandom(seed)
  const condition: AlertCondition = random() < 0.5
    ? { is: random() < 0.5 ? 'above' : 'below', value: 20 }
    : { is: random() < 0.5 ? 'rises_by' : 'falls_by', value: 60 }
  const hours = 24 * 9
  const start = Date.parse('2026-05-04T00:00:00Z')
  const received: number[] = []
  for (let hour = 0; hour < hours; hour++) {
    const count = random() < 0.05 ? 45 : random() < 0.05 ? 2 : 20
    for (let event = 0; event < count; event++) {
      // Late ones are of an hour before, and count in the one in which they arrive.
      const lateMs = random() < 0.1 ? Math.floor(random() * 5 * HOUR) : 0
      received.push(start + hour * HOUR + Math.floor(random() * HOUR) + lateMs)
    }
  }
  received.sort((one, other) => one - other)
  const counts = new Map<number, number>()
  for (const at of received) counts.set(at - at % HOUR, (counts.get(at - at % HOUR) ?? 0) + 1)

  let stored = 0
  let incomplete = 0
  const soFar = new Map<number, number>()
  const valueAt = (from: number, of: Map<number, number>): number => of.get(from) ?? 0
  const begin = comparesWeeks(condition) ? start + WINDOW_MS.week : start
  const evaluate = (from: number, isFiring: boolean, of: Map<number, number>): string | null =>
    outcomeOf(condition, isFiring, {
      value: valueAt(from, of), before: comparesWeeks(condition) ? valueAt(from - WINDOW_MS.week, of) : null
    })
  const found: string[] = []
  let done = new Date(begin)
  let isFiring = false
  for (let now = begin; now < start + hours * HOUR; now += Math.floor(random() * 3 * HOUR)) {
    const through = now - Math.floor(random() * 2 * HOUR)
    // All before the watermark is stored, and some of what came since.
    while (stored < received.length && (received[stored]! < through || (received[stored]! < now && random() < 0.7))) {
      const at = received[stored++]!
      const from = at - at % HOUR
      soFar.set(from, valueAt(from, soFar) + 1)
    }
    for (let window = windowAt('hour', done); window.to.getTime() <= through; window = windowAt('hour', done)) {
      const from = window.from.getTime()
      if (valueAt(from, soFar) !== valueAt(from, counts)) incomplete++
      const outcome = evaluate(from, isFiring, soFar)
      if (outcome !== null) { isFiring = outcome === 'fired'; found.push(`${outcome} ${window.from.toISOString()}`) }
      done = window.to
    }
  }
  const planted: string[] = []
  let wasFiring = false
  for (let from = begin; from < done.getTime(); from += HOUR) {
    const outcome = evaluate(from, wasFiring, counts)
    if (outcome !== null) { wasFiring = outcome === 'fired'; planted.push(`${outcome} ${new Date(from).toISOString()}`) }
  }
  return { found, planted, incomplete }
}

t.test(`in ${RUNS} series with late events exactly the planted windows fire and are resolved, none while it is incomplete`, async (t) => {
  let changes = 0
  for (let seed = 1; seed <= RUNS; seed++) {
    const { found, planted, incomplete } = simulate(seed)
    changes += found.length
    if (incomplete > 0 || JSON.stringify(found) !== JSON.stringify(planted)) t.fail(`seed ${seed}`, { found, planted, incomplete })
  }
  t.ok(changes > RUNS, `${changes} changes`)
})
