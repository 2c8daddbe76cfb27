import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { freePort } from '../../test/support/local-ports.ts'
import { startTestNats, type TestNats } from '../../test/support/test-processes.ts'
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

t.test('refuses invalid addresses, without repeating a password', async (t) => {
  for (const text of ['nats://user:secret@', 'nats://user:secret@one:port']) {
    t.throws(() => parseNatsUrl(text), { name: 'TypeError', message: /^(?!.*secret)/ })
  }
})

/** Collects log lines. */
function keepLines (): { logger: Logger, lines: { msg: string, servers?: string[] }[] } {
  const lines: ReturnType<typeof keepLines>['lines'] = []
  const keep = (facts: object, msg: string): void => {
    lines.push({ ...facts, msg })
  }
  return { logger: { warn: keep, error: keep } as unknown as Logger, lines }
}

/** A nats-server that asks for a login. */
async function startGuardedNats (
  t: Test, password: string
): Promise<TestNats & { urlWith: (password: string) => string }> {
  const nats = await startTestNats(t)
  await nats.setPassword(password)
  const urlWith = (password: string): string => nats.url.replace('//', `//tester:${password}@`)
  const quiet = keepLines().logger
  await waitFor(async () => {
    await (await connectNats({ url: urlWith(password), name: 'test', logger: quiet })).close()
    return await connectNats({ url: urlWith('wrong'), name: 'test', logger: quiet })
      .then(async (open) => { await open.close() }, () => true)
    // A connection that the server drops while it takes up the password ends by the time-out of its request.
  })
  return { ...nats, urlWith }
}

t.test('says soon, and without the password, that it waits for a server which does not answer', async (t) => {
  const silent = createServer((socket) => {
    socket.on('error', () => {}).resume()
    t.teardown(() => { socket.destroy() })
  }).listen(0, '127.0.0.1')
  t.teardown(() => { silent.close() })
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const { logger, lines } = keepLines()

  await t.rejects(connectNats({ url: `nats://name:secret@127.0.0.1:${port}`, name: 'test', logger, timeoutMs: 1900 }))

  t.match(lines, [{ servers: [`127.0.0.1:${port}`], msg: /^waiting for NATS: no server answers/ }])
  t.notMatch(JSON.stringify(lines), /secret/)
})

t.test('says so where nothing listens, too, and goes on waiting until a server is there', async (t) => {
  const port = await freePort()
  const { logger, lines } = keepLines()

  const connecting = connectNats({ url: `nats://name:secret@127.0.0.1:${port}`, name: 'test', logger, waitForServer: true })
  await waitFor(() => lines.length > 0)
  t.match(lines, [{ servers: [`127.0.0.1:${port}`], msg: /^waiting for NATS: no server answers; retrying until it succeeds$/ }])
  t.notMatch(JSON.stringify(lines), /secret/)
  await startTestNats(t, { port })

  const connection = await connecting
  await connection.flush()
  await connection.close()
})

t.test('fails at once when a login is refused, and says so', async (t) => {
  const nats = await startGuardedNats(t, 'right')
  const { logger } = keepLines()

  await t.rejects(connectNats({ url: nats.urlWith('secret'), name: 'test', logger }), {
    code: 'MILLRACE_NATS_LOGIN_REFUSED', message: /^(?!.*secret)NATS refused the login of NATS_URL/
  })
})

t.test('waits until the login is accepted if configured to, and logs the reason', async (t) => {
  const nats = await startGuardedNats(t, 'old')
  const { logger, lines } = keepLines()

  const connecting = connectNats({ url: nats.urlWith('secret'), name: 'test', logger, waitForServer: true })
  await waitFor(() => lines.length > 0)
  await nats.setPassword('secret')
  const connection = await connecting

  t.match(lines, [{ msg: /^waiting for NATS: the login of NATS_URL was refused; retrying until it succeeds$/ }])
  t.notMatch(JSON.stringify(lines), /secret/)
  await connection.flush()
  await connection.close()
})

t.test('an open connection outlives a login that is refused again and again, and says it seldom', async (t) => {
  const nats = await startGuardedNats(t, 'old')
  const { logger, lines } = keepLines()
  const connection = await connectNats({ url: nats.urlWith('old'), name: 'test', logger })
  let attempts = 0
  void (async () => {
    for await (const { type } of connection.status()) if (type === 'error') attempts++
  })()

  await nats.setPassword('new')
  await waitFor(() => attempts > 4)
  t.notOk(connection.isClosed())
  await nats.setPassword('old')
  await waitFor(async () => { await connection.flush(); return true })
  await waitFor(() => lines.length >= 3)
  await connection.close()

  t.same(lines.map(({ msg }) => msg).sort(), [
    'NATS refused the login of NATS_URL; retrying until it is accepted',
    'lost the connection to NATS; reconnecting',
    'reconnected to NATS'
  ])
})
