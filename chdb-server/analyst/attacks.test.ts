import t from 'tap'
import { hasCanary, openRange } from '../testing/fuzz/run-attacks.ts'

const range = await openRange(t)

t.test('no spelling of a name that is not allowed reaches a file, the network or another table', async (t) => {
  const outcome = await range.attack({ user: 'analyst', queries: 1000, seed: 17 })

  t.same(outcome.answered, [])
  t.same(outcome.secretsSeen, [])
  t.equal(outcome.connections, 0)
  t.same(outcome.filesWritten, [])
  t.ok(outcome.refusedByGuard > 500, `${outcome.refusedByGuard} of ${outcome.queries} refused by the guard`)
})

t.test('the same queries do reach them without the guard, so that this test can fail', async (t) => {
  const outcome = await range.attack({ user: 'owner', queries: 150, seed: 17, isWanted: hasCanary })

  t.ok(outcome.answered.length > 20, `${outcome.answered.length} answered`)
  t.ok(outcome.secretsSeen.length > 10, `${outcome.secretsSeen.length} with the secret`)
  t.ok(outcome.connections > 0)
})

// Idle sockets would keep the file from ending by itself.
t.end()
