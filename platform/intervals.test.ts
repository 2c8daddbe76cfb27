import t from 'tap'
import { pause, retryDelayMs } from './intervals.ts'

t.test('doubles up to ten seconds, with jitter over the upper half', (t) => {
  t.same([0, 1, 2, 5, 6, 60].map((attempt) => retryDelayMs(attempt, () => 1)), [200, 400, 800, 6400, 10_000, 10_000])
  t.same([0, 6].map((attempt) => retryDelayMs(attempt, () => 0)), [100, 5000])
  t.end()
})

t.test('a pause ends when its signal fires, also before it began', async (t) => {
  const stopping = new AbortController()
  const paused = pause(60_000, stopping.signal)
  stopping.abort()
  await paused
  await pause(60_000, stopping.signal)
  t.ok(stopping.signal.aborted)
})
