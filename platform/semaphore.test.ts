import t from 'tap'
import { createSemaphore } from './semaphore.ts'

t.test('runs as much at once as it may, in order, also after failures, and not what nobody waits for', async (t) => {
  let time = 0
  const { run } = createSemaphore({ limit: 2, maxWaitMs: 10, now: () => time })
  const ends: (() => void)[] = []
  const begun: number[] = []
  const ask = async (id: number): Promise<number> => await run(async () => {
    begun.push(id)
    await new Promise<void>((resolve) => { ends.push(resolve) })
    if (id === 1) throw new Error('failed')
    return id
  })
  const settled = Promise.allSettled([1, 2, 3, 4].map(ask))

  t.same(begun, [1, 2])
  ends[0]!()
  await new Promise(setImmediate)
  t.same(begun, [1, 2, 3])
  time = 11
  ends[1]!()
  ends[2]!()
  const outcomes = await settled

  t.same(begun, [1, 2, 3])
  t.match(outcomes, [{ reason: { message: 'failed' } }, { value: 2 }, { value: 3 }, { reason: { message: /abandoned after 10 ms/ } }])
  const later = ask(5)
  ends.at(-1)!()
  await new Promise(setImmediate)
  ends.at(-1)!()
  t.equal(await later, 5)
})

t.test('gives a place at once or not at all, and each back to whoever waits', async (t) => {
  const semaphore = createSemaphore({ limit: 1 })
  const release = semaphore.tryAcquire()
  const waiting = semaphore.run(async () => 'ran')

  t.equal(semaphore.tryAcquire(), null)
  release?.()

  t.equal(await waiting, 'ran')
  t.ok(semaphore.isIdle)
})
