import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { readProcessIdentity } from '../supervisor/processes/recorded-processes.ts'
import { lockDataDir } from './data-dir-lock.ts'
import { findRunningStack, loadCredentials, readStackState } from './stack-access.ts'

const NONE = { projectApiKey: '', personalApiKey: '' }

t.test('generates keys and passwords once and keeps them for the owner only', async (t) => {
  const dataDir = t.testdir()

  const first = await loadCredentials(dataDir, NONE)

  t.match(first, { projectApiKey: /^phc_\w{40,}$/, personalApiKey: /^phx_\w{40,}$/ })
  t.same(await loadCredentials(dataDir, NONE), first)
  t.equal((await stat(path.join(dataDir, 'credentials.json'))).mode & 0o777, 0o600)
})

t.test('refuses a file that lacks a key or password', async (t) => {
  const dataDir = t.testdir()
  const file = path.join(dataDir, 'credentials.json')
  const whole = await loadCredentials(dataDir, NONE)
  for (const [text, message] of [
    [JSON.stringify({ ...whole, analystPassword: '' }), `${file} is not JSON or has no analystPassword: correct it`],
    [JSON.stringify({ ...whole, clickhousePassword: undefined }), `${file} is not JSON or has no clickhousePassword: correct it`],
    ['null', `${file} is not JSON or has no projectApiKey: correct it`],
    ['{', `${file} is not JSON or has no projectApiKey: correct it`]
  ] as const) {
    await writeFile(file, text)
    await t.rejects(loadCredentials(dataDir, NONE), { code: 'MILLRACE_DATA_DIR_UNUSABLE', message })
  }
})

t.test('addresses that a full disk or a power loss cut off are those of a stopped stack', async (t) => {
  for (const cut of ['', '{"pid": 1']) {
    const dataDir = t.testdir({ 'credentials.json': '{}', 'addresses.json': cut })
    t.match(await readStackState(dataDir), { kind: 'stopped', why: /is stopped, or not ready yet: start it/ })
  }
})

t.test('takes chosen keys on an empty data directory only', async (t) => {
  const dataDir = t.testdir()
  const chosen = { ...NONE, projectApiKey: 'phc_chosen', personalApiKey: 'phx_chosen' }

  const first = await loadCredentials(dataDir, chosen)
  const second = await loadCredentials(dataDir, { ...NONE, projectApiKey: 'phc_other' })

  t.match(first, { projectApiKey: 'phc_chosen', personalApiKey: 'phx_chosen' })
  t.same(second, first)
  t.notMatch(await readFile(path.join(dataDir, 'credentials.json'), 'utf8'), 'phc_other')
})

t.test('tells a stack that is stopped from a folder where none was ever started', async (t) => {
  const dataDir = t.testdir()
  t.equal(await findRunningStack(dataDir), undefined)
  t.equal(await findRunningStack(path.join(dataDir, 'missing')), undefined)

  await loadCredentials(dataDir, NONE)
  await t.rejects(findRunningStack(dataDir), { code: 'MILLRACE_STACK_NOT_RUNNING' })

  const lock = await lockDataDir(dataDir)
  await writeFile(path.join(dataDir, 'addresses.json'), `{"pid":${process.pid},"natsUrl":"nats://127.0.0.1:9"}`)
  t.match(await findRunningStack(dataDir), { natsUrl: 'nats://127.0.0.1:9' })
  await rm(path.join(dataDir, 'addresses.json'))
  await lock.release()
  await t.rejects(findRunningStack(dataDir), { code: 'MILLRACE_STACK_NOT_RUNNING' }, 'after it was stopped')
})

t.test('tells a stack that runs in another container from one that was killed', async (t) => {
  const dataDir = t.testdir()
  const lock = await lockDataDir(dataDir)
  await writeFile(path.join(dataDir, 'addresses.json'), '{"pid":6}')
  // The process has another number there.
  await writeFile(path.join(dataDir, 'lock'), '{"pid":6,"identity":"of a process that this container does not see"}')

  t.match(await readStackState(dataDir), { kind: 'stopped', why: /runs in another container: run the command there/ })

  await lock.release()
})

t.test('tells what still runs of a stack whose supervisor was killed', async (t) => {
  const dataDir = t.testdir()
  const gone = spawn(process.execPath, ['--version'])
  const left = spawn('sleep', ['60'])
  t.teardown(() => { left.kill('SIGKILL') })
  await once(gone, 'exit')
  const identity = await readProcessIdentity(left.pid!)
  await writeFile(path.join(dataDir, 'addresses.json'), JSON.stringify({ pid: gone.pid, baseUrl: 'http://127.0.0.1:9' }))
  await writeFile(path.join(dataDir, 'lock'), JSON.stringify({ pid: gone.pid, identity: 'of another start' }))
  await writeFile(path.join(dataDir, 'processes.json'), JSON.stringify([
    { name: 'nats', pid: left.pid, identity, stopSignal: 'SIGTERM' }, { name: 'api', pid: gone.pid, identity: 'x', stopSignal: 'SIGTERM' }
  ]))

  const state = await readStackState(dataDir)
  t.match(state, { kind: 'killed', addresses: { baseUrl: 'http://127.0.0.1:9' }, why: /was killed .*; nats is still running without a supervisor/ })
  await t.rejects(findRunningStack(dataDir), { code: 'MILLRACE_STACK_NOT_RUNNING', message: /run "millrace start", which ends the rest first/ })

  const lock = await lockDataDir(dataDir)
  t.match(await readStackState(dataDir), { kind: 'stopped', why: new RegExp(`is starting again, as process ${process.pid}$`) })
  await lock.release()
  left.kill('SIGKILL')
  await once(left, 'exit')
  t.match(await readStackState(dataDir), { kind: 'stopped', why: /nothing of it runs any more: start it$/ })
})
