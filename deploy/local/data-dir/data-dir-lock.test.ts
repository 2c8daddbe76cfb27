import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { lockDataDir } from './data-dir-lock.ts'

/** Locks the folder, says so, and holds it until it is killed. */
const HOLD = `
  import { lockDataDir } from ${JSON.stringify(path.join(import.meta.dirname, 'data-dir-lock.ts'))}
  await lockDataDir(process.env.FOLDER).then(() => console.log('locked'), (error) => console.log(error.code))
  setInterval(() => {}, 1000)
`

t.test('refuses a second stack and names the process of the first', async (t) => {
  const dataDir = t.testdir()
  const lock = await lockDataDir(dataDir)

  await t.rejects(lockDataDir(dataDir), { code: 'MILLRACE_ALREADY_RUNNING', message: new RegExp(`process ${process.pid}`) })

  await lock.release()
  await (await lockDataDir(dataDir)).release()
})

t.test('takes over the lock of a process that was killed', async (t) => {
  const dataDir = t.testdir()
  const holder = hold(dataDir)
  t.equal(await holder.said, 'locked')
  await t.rejects(lockDataDir(dataDir), { code: 'MILLRACE_ALREADY_RUNNING' })

  await holder.kill()

  await (await lockDataDir(dataDir)).release()
})

t.test('takes over a lock whose process number belongs to another process by now, and a torn one', async (t) => {
  const dataDir = t.testdir()

  await writeFile(path.join(dataDir, 'lock'), JSON.stringify({ pid: process.pid, identity: 'of an earlier boot' }))
  await (await lockDataDir(dataDir)).release()
  await writeFile(path.join(dataDir, 'lock'), '{"pid":')
  await (await lockDataDir(dataDir)).release()
})

t.test('gives a stale lock to one of several starts only', async (t) => {
  const dataDir = t.testdir({ lock: JSON.stringify({ pid: 1, identity: 'long gone' }) })
  const starts = Array.from({ length: 6 }, () => hold(dataDir))
  t.teardown(async () => { await Promise.all(starts.map((start) => start.kill())) })

  const said = await Promise.all(starts.map((start) => start.said))

  t.same(said.sort(), ['locked', ...Array.from({ length: 5 }, () => 'MILLRACE_ALREADY_RUNNING')].sort())
})

function hold (dataDir: string): { said: Promise<string>, kill: () => Promise<void> } {
  const child = spawn(process.execPath, ['--input-type=module', '-e', HOLD], {
    env: { ...process.env, FOLDER: dataDir }, stdio: ['ignore', 'pipe', 'inherit']
  })
  const exited = once(child, 'exit')
  return {
    said: once(child.stdout, 'data').then(([line]) => String(line).trim()),
    async kill () {
      child.kill('SIGKILL')
      await exited
    }
  }
}
