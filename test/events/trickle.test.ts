import t from 'tap'
import { startStackOnSharedStores } from '../start-stack.ts'
import { sendTrickle } from '../support/trickle.ts'

/** Long enough for several pauses of the writer and heartbeats of a pull. */
const SECONDS = 20

t.test('one event a second: each is delivered at once, and visible', async (t) => {
  const stack = await startStackOnSharedStores(t)

  const { visibleMs, delivered, late } = await sendTrickle(stack, SECONDS)

  t.comment(`visible after ${Math.round(Math.max(...visibleMs))} ms at most`)
  t.ok(delivered.events >= SECONDS, `${delivered.events} messages of events`)
  t.ok(delivered.persons >= SECONDS, `${delivered.persons} messages of persons`)
  t.equal(late, 0, 'messages that were delivered late')
  t.ok(Math.max(...visibleMs) < 10_000, 'visible')
})
