import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { collectGarbage } from '../test/support/collect-garbage.ts'
import { tryLockFile } from './durable-folder.ts'
import { explainListenError } from './listen-errors.ts'

/** Fails at its start; with `hang`, a handler of the exit never returns. */
const FAIL = `
  import { runProcess } from ${JSON.stringify(path.join(import.meta.dirname, 'process-lifecycle.ts'))}
  if (process.argv[1] === 'hang') process.on('exit', () => { for (;;) {} })
  runProcess('trial', async () => { throw new Error('on purpose') })
`

async function runFailing (...args: string[]): Promise<{ code: number | null, signal: string | null, err: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', FAIL, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  const [err, [code, signal]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  return { code: code as number | null, signal: signal as string | null, err }
}

t.test('a failed start says why and ends with 1', async (t) => {
  t.match(await runFailing(), { code: 1, err: /trial could not start: Error: on purpose/ })
})

const onLinux = process.platform === 'linux' ? {} : { skip: 'Linux only' }

t.test('a process that hangs in its exit is killed, so that its supervisor can start it again', onLinux, async (t) => {
  t.match(await runFailing('hang'), { signal: 'SIGKILL', err: /on purpose/ })
})

async function listenInVain (options: { port: number, host: string }): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const server = createServer().once('error', resolve)
    server.listen({ ...options, exclusive: true }, () => { server.close(); reject(new Error('it listens')) })
  })
}

t.test('a process that cannot listen names its setting', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  t.teardown(() => { other.close() })
  const { port } = await new Promise<{ port: number }>((resolve) => {
    other.once('listening', () => resolve(other.address() as { port: number }))
  })
  const taken = await listenInVain({ port, host: '127.0.0.1' })

  t.match(explainListenError(taken, 'ingest', {}), { message: new RegExp(`port ${port} for ingest is in use .* set MILLRACE_PORT`) })
  t.match(explainListenError(taken, 'api', {}), { message: /set MILLRACE_API_PORT/ })

  // For documentation: nobody has it.
  const elsewhere = await listenInVain({ port: 0, host: '192.0.2.1' })
  t.match(explainListenError(elsewhere, 'pipeline', {}), {
    code: 'MILLRACE_SETTINGS_INVALID', message: /MILLRACE_HOST must be an address of this machine, .* but is "192\.0\.2\.1"/
  })
})

t.test('other errors stay as they are', async (t) => {
  const lookup = Object.assign(new Error('getaddrinfo ENOTFOUND db'), { syscall: 'getaddrinfo', code: 'ENOTFOUND', hostname: 'db' })

  t.equal(explainListenError(lookup, 'api', { MILLRACE_HOST: 'web' }), lookup, 'a database that is not found')
  t.match(explainListenError(lookup, 'api', { MILLRACE_HOST: 'db' }), { message: /MILLRACE_HOST .* but is "db" \(ENOTFOUND\)/ })
  const other = new Error('other')
  t.equal(explainListenError(other, 'api', {}), other)
})

t.test('a file has one lock, until that is released', async (t) => {
  const folder = t.testdir()
  const file = path.join(folder, 'lock')

  const lock = tryLockFile(file)
  t.equal(tryLockFile(file), null)
  t.same(readdirSync(folder), ['lock'], 'and no journal beside it, which a kill would leave')
  lock?.release()
  lock?.release()

  const next = tryLockFile(file)
  t.not(next, null)
  next?.release()
})

t.test('a lock that nobody refers to any more is still held', async (t) => {
  const folder = t.testdir()
  const files = Array.from({ length: 20 }, (_, i) => path.join(folder, String(i)))

  t.same(files.map((file) => tryLockFile(file) !== null), files.map(() => true))
  for (let i = 0; i < 3; i++) {
    collectGarbage()
    await new Promise(setImmediate)
  }

  t.same(files.map((file) => tryLockFile(file)), files.map(() => null))
})

t.test('tells why a file cannot be locked', async (t) => {
  t.throws(() => tryLockFile(path.join(t.testdir(), 'absent', 'lock')), { code: 'ERR_SQLITE_ERROR' })
})
