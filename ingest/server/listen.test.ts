import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { Logger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { closeGracefully, limitConnections } from './listen.ts'

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

interface Limited {
  server: Server
  warnings: object[]
  metrics: ReturnType<typeof createMetrics>
}

async function limit (t: Test, options: { maxConnections: number, openFiles: number }): Promise<Limited> {
  const warnings: Limited['warnings'] = []
  const logger = { warn: (facts: object, msg: string) => { warnings.push({ ...facts, msg }) } } as unknown as Logger
  const metrics = createMetrics('ingest')
  const server = createServer().listen(0, '127.0.0.1')
  t.teardown(() => { server.close() })
  await once(server, 'listening')
  limitConnections(server, { ...options, metrics, logger })
  return { server, warnings, metrics }
}

t.test('fewer connections than the setting says when the process may not open as many files, with a warning', async (t) => {
  const few = await limit(t, { maxConnections: 10_000, openFiles: 256 })
  t.equal(few.server.maxConnections, 96)
  t.match(few.warnings, [{ limit: 96, maxConnections: 10_000, openFiles: 256, msg: /LimitNOFILE/ }])

  const next = await limit(t, { maxConnections: 10_000, openFiles: 64 })
  t.equal(next.server.maxConnections, 16, 'some, always')

  const many = await limit(t, { maxConnections: 10_000, openFiles: 524_288 })
  t.equal(many.server.maxConnections, 10_000)
  t.same(many.warnings, [])
})

t.test('connections beyond the limit are closed, counted, and warned of', async (t) => {
  const { server, warnings, metrics } = await limit(t, { maxConnections: 2, openFiles: 1024 })
  const open = async (): Promise<Socket> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => { socket.destroy() })
    await once(socket, 'connect')
    return socket
  }
  await open()
  await open()
  for (const socket of [await open(), await open()]) {
    socket.resume().on('error', () => {})
    await once(socket, 'close')
  }

  t.match(await metrics.registry.metrics(), /^millrace_ingest_refused_connections_total 2$/m)
  t.match(warnings, [{ limit: 2, msg: /the maximum number is open/ }, {}])
})
