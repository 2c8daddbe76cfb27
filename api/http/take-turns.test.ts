import t from 'tap'
import { createTakeTurn } from './take-turns.ts'

t.test('runs as much at once as it may, in order, also after failures, and not what nobody waits for', async (t) => {
  let time = 0
  const takeTurn = createTakeTurn({ atOnce: 2, patienceMs: 10, now: () => time })
  const ends: (() => void)[] = []
  const begun: number[] = []
  const ask = async (id: number): Promise<number> => await takeTurn(async () => {
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
  t.match(outcomes, [{ reason: { message: 'failed' } }, { value: 2 }, { value: 3 }, { reason: { message: /nobody waits/ } }])
  const later = ask(5)
  ends.at(-1)!()
  await new Promise(setImmediate)
  ends.at(-1)!()
  t.equal(await later, 5)
})
