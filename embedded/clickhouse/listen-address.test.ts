import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import t from 'tap'
import { spawnServer, startTestServer, TEST_PASSWORDS, type TestServerOptions } from './testing/start-test-server.ts'

/** Of this machine, by which others reach it. */
const outside = Object.values(networkInterfaces()).flat().find((it) => it?.family === 'IPv4' && !it.internal)?.address

async function readErrors (options: TestServerOptions, dataDir: string): Promise<string> {
  const child = spawnServer(dataDir, options)
  let errors = ''
  child.stderr!.on('data', (chunk: Buffer) => { errors += chunk.toString() })
  child.stdout!.on('data', (chunk: Buffer) => { errors += chunk.toString() })
  await once(child, 'close')
  return errors
}

async function asks (host: string, port: number): Promise<boolean> {
  const headers = { 'x-clickhouse-user': 'analyst', 'x-clickhouse-key': TEST_PASSWORDS.analyst }
  const answer = await fetch(`http://${host}:${port}/?query=SELECT+1`, { headers }).catch(() => undefined)
  return answer?.status === 200
}

t.test('listens on this machine alone unless it is told otherwise', async (t) => {
  const server = await startTestServer(t)

  t.equal(await asks('127.0.0.1', server.port), true)
  if (outside !== undefined) t.equal(await asks(outside, server.port), false)
})

t.test('listens on every address when it is told so', async (t) => {
  const server = await startTestServer(t, { args: ['--host', '0.0.0.0'] })

  t.equal(await asks('127.0.0.1', server.port), true)
  if (outside !== undefined) t.equal(await asks(outside, server.port), true)
})

t.test('lets no other machine in without a password, and names what is missing', async (t) => {
  const env = { CHDB_SERVER_PASSWORD: '', CHDB_SERVER_ANALYST_PASSWORD: '' }
  const errors = await readErrors({ args: ['--host', '0.0.0.0'], env }, t.testdir())

  t.match(errors, /user owner must have a password .* when --host is no address of this machine alone/)
})

t.test('says that an address is none of this machine', async (t) => {
  t.match(await readErrors({ args: ['--host', '192.0.2.1'] }, t.testdir()), /--host: 192\.0\.2\.1 is no address/)
})
