import t from 'tap'
import { type CancellableWork, createCircuitBreaker } from './circuit-breaker.ts'

const OPTIONS = { failures: 2, pauseMs: 1000, timeoutMs: 20 }

function answers<T> (value: T): () => CancellableWork<T> {
  return () => ({ answer: Promise.resolve(value), cancel: () => {} })
}

t.test('opens after failures in a row, and probes with one request after a pause', async (t) => {
  let now = 0
  let calls = 0
  const failures: unknown[] = []
  const guard = createCircuitBreaker({ ...OPTIONS, now: () => now }, (error) => failures.push(error))
  const fails = (): CancellableWork<number> => {
    calls++
    return { answer: Promise.reject(new Error('unavailable')), cancel: () => {} }
  }

  for (let i = 0; i < 5; i++) t.equal(await guard(fails), null)
  t.equal(calls, 2)
  now = 1000
  const [probe, other] = await Promise.all([guard(answers('back')), guard(fails)])
  t.equal(probe, 'back')
  t.equal(other, null, 'others do not wait for the probe')
  t.equal(calls, 2)
  t.equal(await guard(answers('again')), 'again')
  t.equal(failures.length, 2)
})

t.test('cancels the work after the timeout', async (t) => {
  let cancelled = 0
  const guard = createCircuitBreaker({ ...OPTIONS, now: () => 0 }, () => {})

  const answer = await guard(() => ({ answer: new Promise<number>(() => {}), cancel: () => { cancelled++ } }))

  t.equal(answer, null)
  t.equal(cancelled, 1)
})
