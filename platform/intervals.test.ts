import { getEventListeners } from 'node:events'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { pause, retryDelayMs, runAtIntervals } from './intervals.ts'

t.test('doubles up to ten seconds, with jitter over the upper half', (t) => {
  t.same([0, 1, 2, 5, 6, 60].map((attempt) => retryDelayMs(attempt, () => 1)), [200, 400, 800, 6400, 10_000, 10_000])
  t.same([0, 6].map((attempt) => retryDelayMs(attempt, () => 0)), [100, 5000])
  t.end()
})

t.test('a pause ends when its signal fires, also before it began', async (t) => {
  // Time stands still: what ends here did not wait.
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => { mock.timers.reset() })
  const stopping = new AbortController()
  let hasEnded = false
  const paused = pause(60_000, stopping.signal).then(() => { hasEnded = true })
  mock.timers.tick(59_999)
  await nextTurn()
  t.notOk(hasEnded, 'it lasts as long as it should')

  stopping.abort()
  await paused
  await pause(60_000, stopping.signal)

  t.same(getEventListeners(stopping.signal, 'abort'), [], 'nothing listens to the signal any more')
})

t.test('a pause ends after its time, and leaves the signal alone', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => { mock.timers.reset() })
  const { signal } = new AbortController()

  const paused = pause(60_000, signal)
  t.equal(getEventListeners(signal, 'abort').length, 1)
  mock.timers.tick(60_000)
  await paused

  t.same(getEventListeners(signal, 'abort'), [])
})

t.test('work at intervals is done at once, again after each pause, and never twice at a time', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => { mock.timers.reset() })
  const runs: PromiseWithResolvers<undefined>[] = []
  const loop = runAtIntervals({
    everyMs: 1000,
    run: async () => {
      const run = Promise.withResolvers<undefined>()
      runs.push(run)
      await run.promise
    }
  })
  t.equal(runs.length, 1, 'at once')

  mock.timers.tick(10_000)
  await nextTurn()
  t.equal(runs.length, 1, 'not while it runs')
  runs[0]!.resolve(undefined)
  await nextTurn()
  mock.timers.tick(949)
  await nextTurn()
  t.equal(runs.length, 1, 'not before the pause is over, less 5 %')
  mock.timers.tick(101)
  await nextTurn()
  t.equal(runs.length, 2, 'after the pause and 5 %')

  const stopping = loop.stop()
  runs[1]!.resolve(undefined)
  await stopping
  mock.timers.tick(10_000)
  await nextTurn()
  t.equal(runs.length, 2, 'not after the stop')
})

t.test('work at intervals that fails is logged and done again, with growing pauses', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => { mock.timers.reset() })
  const warnings: unknown[][] = []
  let runs = 0
  const loop = runAtIntervals({
    everyMs: 10,
    run: () => { if (++runs < 8) throw new Error('no') },
    logger: { warn: (...line: unknown[]) => { warnings.push(line) } },
    failure: 'it failed'
  })
  t.teardown(() => loop.stop())

  for (let failed = 1; failed < 7; failed++) {
    await nextTurn()
    mock.timers.tick(100 * 2 ** (failed - 1) - 1)
    await nextTurn()
    t.equal(runs, failed, `not within half of the ${failed}. pause`)
    mock.timers.tick(100 * 2 ** (failed - 1) + 1)
    await nextTurn()
    t.equal(runs, failed + 1)
  }
  t.match(warnings[0], [{ err: { message: 'no' }, failures: 1 }, 'it failed'])
  t.match(warnings.at(-1), [{ failures: 7 }])
})

t.test('a pause is cut short when the next run is asked for, but not after a failure', async (t) => {
  let runs = 0
  let fails = false
  const ran: (() => void)[] = []
  const loop = runAtIntervals({
    everyMs: 3_600_000,
    run: () => {
      runs++
      ran.splice(0).forEach((resolve) => resolve())
      if (fails) throw new Error('no')
    }
  })
  t.teardown(() => loop.stop())
  // A pause does not keep the process alive.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  const next = async (): Promise<void> => await new Promise((resolve) => { ran.push(resolve) })
  t.equal(runs, 1)
  await nextTurn()

  const second = next()
  loop.soon(3_600_000)
  loop.soon(1)
  await second
  t.equal(runs, 2, 'the sooner one holds')
  await nextTurn()
  fails = true
  const failed = next()
  loop.soon(0)
  await failed
  await nextTurn()
  loop.soon(0)
  for (let turn = 0; turn < 20; turn++) await nextTurn()
  t.equal(runs, 3, 'the pause after a failure is kept')
})

t.test('a stop tells the run to end, and waits for it only so long', async (t) => {
  let isTold = false
  const loop = runAtIntervals({
    everyMs: 1000,
    stopWithinMs: 20,
    run: async (signal) => {
      signal.addEventListener('abort', () => { isTold = true })
      await new Promise(() => {})
    }
  })

  const startedAt = performance.now()
  await loop.stop()

  t.ok(isTold)
  t.ok(performance.now() - startedAt >= 19, 'it waited')
})
