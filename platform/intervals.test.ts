import { getEventListeners } from 'node:events'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { pause, retryDelayMs } from './intervals.ts'

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
