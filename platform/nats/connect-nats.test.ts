import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { freePort } from '../../test/support/local-ports.ts'
import { waitFor } from '../../test/support/wait-for.ts'
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

t.setTimeout(20_000)

/** Keeps what is warned of, and when, in milliseconds from now. */
function keepWarnings (): { logger: Logger, warnings: { atMs: number, msg: string, servers?: string[] }[] } {
  const startedAt = performance.now()
  const warnings: ReturnType<typeof keepWarnings>['warnings'] = []
  const warn = (facts: object, msg: string): void => {
    warnings.push({ ...facts, msg, atMs: performance.now() - startedAt })
  }
  return { logger: { warn } as unknown as Logger, warnings }
}

t.test('says soon, and without the password, that it waits for a server which does not answer', async (t) => {
  const silent = createServer((socket) => {
    socket.on('error', () => {}).resume()
    t.teardown(() => { socket.destroy() })
  }).listen(0, '127.0.0.1')
  t.teardown(() => { silent.close() })
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const { logger, warnings } = keepWarnings()

  await t.rejects(connectNats({ url: `nats://name:secret@127.0.0.1:${port}`, name: 'test', logger, timeoutMs: 1900 }))

  t.match(warnings, [{ servers: [`127.0.0.1:${port}`], msg: /^waiting for NATS: no server of NATS_URL has answered/ }])
  t.ok(warnings[0]!.atMs < 2000, 'within two seconds')
  t.notMatch(JSON.stringify(warnings), /secret/)
})

t.test('says so where nothing listens, too, and goes on waiting until a server is there', async (t) => {
  const port = await freePort()
  const { logger, warnings } = keepWarnings()

  const connecting = connectNats({ url: `nats://name:secret@127.0.0.1:${port}`, name: 'test', logger, waitForServer: true })
  await waitFor(() => warnings.length > 0)
  t.match(warnings, [{ servers: [`127.0.0.1:${port}`], msg: /trying on until one does$/ }])
  t.notMatch(JSON.stringify(warnings), /secret/)
  const refusing = createServer((socket) => {
    socket.on('error', () => {}).write('INFO {"server_id":"x","version":"2.11.0","proto":1,"max_payload":1048576,"headers":true}\r\n')
    socket.once('data', () => socket.end("-ERR 'Authorization Violation'\r\n"))
  }).listen(port, '127.0.0.1')
  t.teardown(() => { refusing.close() })

  await t.rejects(connecting, { name: 'AuthorizationError' }, 'a server that refuses the login is not waited for')
})
