import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { spawnServer, startTestServer, TEST_PASSWORDS, type TestServerOptions } from '../testing/start-test-server.ts'

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

const MAIN = path.join(import.meta.dirname, '..', 'main.ts')

t.test('says that the address space is limited, instead of how to install packages', async (t) => {
  if (process.platform !== 'linux') return t.comment('NOT RUN: the limit is one of Linux')
  const args = [MAIN, '--data-dir', t.testdir(), '--port', '0']
  const command = ['-c', 'ulimit -v 2000000 && exec "$0" "$@"', process.execPath, ...args]

  const ended = await promisify(execFile)('sh', command, { timeout: 60_000 })
    .then(() => null, (error: { code: number, stdout: string, stderr: string }) => error)

  t.equal(ended?.code, 1)
  t.match(ended?.stdout, '"limitBytes":2048000000')
  t.match(ended?.stderr, /the ClickHouse engine could not be loaded: its address space is limited to 2048000000 bytes \(ulimit -v/)
  t.notMatch(ended?.stderr, /npm ci/)
})
