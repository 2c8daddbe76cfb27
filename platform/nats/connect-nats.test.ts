import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import type { Logger } from '../logger.ts'
import { connectNats, parseNatsUrl } from './connect-nats.ts'

t.test('reads servers with and without a scheme', async (t) => {
  t.same(parseNatsUrl('nats://127.0.0.1:4222'), { servers: ['127.0.0.1:4222'] })
  t.same(parseNatsUrl('one:4222, nats://two:4223 ,[::1]:4224'), { servers: ['one:4222', 'two:4223', '[::1]:4224'] })
})

t.test('reads a login, with characters that a URL escapes', async (t) => {
  t.same(parseNatsUrl('nats://ingest:p%40ss%2F@one:4222,nats://two:4222'), {
    servers: ['one:4222', 'two:4222'], user: 'ingest', pass: 'p@ss/'
  })
})

t.test('insists on TLS when a server is named by tls://', async (t) => {
  t.same(parseNatsUrl('tls://one:4222'), { servers: ['one:4222'], tls: {} })
})

t.test('refuses what is no address, without repeating a password', async (t) => {
  for (const text of ['nats://user:secret@', 'nats://user:secret@one:port']) {
    t.throws(() => parseNatsUrl(text), { name: 'TypeError', message: /^(?!.*secret)/ })
  }
})

t.setTimeout(30_000)

t.test('says that no server answers, while it waits for one', async (t) => {
  const silent = createServer((socket) => {
    socket.on('error', () => {}).resume()
    t.teardown(() => { socket.destroy() })
  }).listen(0, '127.0.0.1')
  t.teardown(() => { silent.close() })
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const warnings: object[] = []
  const logger = { warn: (facts: object, msg: string) => { warnings.push({ ...facts, msg }) } } as unknown as Logger
  const url = `nats://name:secret@127.0.0.1:${port}`

  await t.rejects(connectNats({ url, name: 'test', logger, timeoutMs: 5500 }))

  t.match(warnings, [{ servers: [`127.0.0.1:${port}`], msg: /no NATS server has answered/ }])
  t.notMatch(JSON.stringify(warnings), /secret/)
})
