import { setImmediate as nextTurn } from 'node:timers/promises'
import fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import type { TestContext } from '../../test/support/test-context.ts'
import { closeGracefully } from './listen.ts'

const GRACE_MS = 100

async function startApp (t: TestContext): Promise<FastifyInstance> {
  const app = fastify()
  await app.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(async () => await app.close())
  return app
}

/** A clock that moves by work alone: on a busy machine a turn takes as long as others let it. */
function stopClock (t: TestContext): { work: () => void } {
  let now = performance.now()
  performance.now = () => now
  t.teardown(() => { Reflect.deleteProperty(performance, 'now') })
  return { work () { now += 5 } }
}

t.test('keeps the port while turns of the event loop have work in them, and closes it then', async (t) => {
  const { work } = stopClock(t)
  const app = await startApp(t)
  const closed = closeGracefully(app, GRACE_MS)

  for (let turn = 0; turn < 10; turn++) {
    work()
    await nextTurn()
    t.ok(app.server.listening, `turn ${turn}`)
  }
  await closed

  t.notOk(app.server.listening)
})

t.test('closes the port of a process that is never without work', async (t) => {
  const { work } = stopClock(t)
  const app = await startApp(t)
  const done = new AbortController()
  const busy = (async () => {
    while (!done.signal.aborted) {
      work()
      await nextTurn()
    }
  })()

  await closeGracefully(app, GRACE_MS)
  done.abort()
  await busy

  t.notOk(app.server.listening)
})
