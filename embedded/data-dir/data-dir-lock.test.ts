import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { isHeldElsewhere, lockDataDir } from './data-dir-lock.ts'

/** Locks the folder, says so, and holds it until it is killed. */
const HOLD = `
  import { lockDataDir } from ${JSON.stringify(path.join(import.meta.dirname, 'data-dir-lock.ts'))}
  await lockDataDir(process.env.FOLDER).then(() => console.log('locked'), (error) => console.log(error.code))
  setInterval(() => {}, 1000)
`

/** Locks folders on command, reports the outcome, and holds them until it is killed. */
const LOCK_ALL = `
  import { lockDataDir } from ${JSON.stringify(path.join(import.meta.dirname, 'data-dir-lock.ts'))}
  console.log('ready')
  process.stdin.once('data', async () => {
    const lock = async (folder) => await lockDataDir(folder).then(() => 'locked', (error) => error.code)
    console.log(JSON.stringify(await Promise.all(process.argv.slice(1).map(lock))))
  })
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

t.test('refuses a second stack of another container, to which the process of the first has another number', async (t) => {
  const dataDir = t.testdir()
  const holder = hold(dataDir)
  t.equal(await holder.said, 'locked')
  const file = path.join(dataDir, 'lock')
  const lock = JSON.parse(await readFile(file, 'utf8')) as object
  await writeFile(file, JSON.stringify({ ...lock, pid: process.pid }))

  await t.rejects(lockDataDir(dataDir), { code: 'MILLRACE_ALREADY_RUNNING', message: /in another container/ })
  t.equal(await isHeldElsewhere(dataDir), true)

  await holder.kill()
  t.equal(await isHeldElsewhere(dataDir), false)
  await (await lockDataDir(dataDir)).release()
})

t.test('a copy of a data directory in use is refused, one of a stopped one and a moved one are not', async (t) => {
  const dir = t.testdir({ original: {} })
  const original = path.join(dir, 'original')
  const holder = hold(original)
  t.equal(await holder.said, 'locked')
  await setWrittenAt(original, Date.now() - 3_600_000)
  const copy = path.join(dir, 'copy')
  await cp(original, copy, { recursive: true, preserveTimestamps: true })
  await t.rejects(lockDataDir(copy), { code: 'MILLRACE_DATA_DIR_COPIED', message: /copied while Millrace ran.*remove .*lock$/ })
  await holder.kill()
  await t.rejects(lockDataDir(copy), { code: 'MILLRACE_DATA_DIR_COPIED' }, 'also when nobody holds the original any more')

  const moved = path.join(dir, 'moved')
  await rename(original, moved)
  await (await lockDataDir(moved)).release()
  const ofStopped = path.join(dir, 'of stopped')
  await cp(moved, ofStopped, { recursive: true })
  await (await lockDataDir(ofStopped)).release()
})

/** As if it was locked then. */
async function setWrittenAt (dataDir: string, writtenAt: number): Promise<void> {
  const file = path.join(dataDir, 'lock')
  const lock = JSON.parse(await readFile(file, 'utf8')) as object
  // Written in place, so that it stays the same file.
  await writeFile(file, JSON.stringify({ ...lock, writtenAt }))
}

t.test('takes over a lock whose process id was reused, and a torn one', async (t) => {
  const dataDir = t.testdir()

  await writeFile(path.join(dataDir, 'lock'), JSON.stringify({ pid: process.pid, identity: 'of an earlier boot' }))
  await (await lockDataDir(dataDir)).release()
  await writeFile(path.join(dataDir, 'lock'), '{"pid":')
  await (await lockDataDir(dataDir)).release()
})

t.test('names the folder that it cannot use, whichever of its files is in the way', async (t) => {
  for (const name of ['lock', 'lock.held']) {
    const dataDir = t.testdir({ [name]: {} })
    await t.rejects(lockDataDir(dataDir), { code: 'MILLRACE_DATA_DIR_UNUSABLE', message: new RegExp(dataDir) }, name)
    t.same(await readdir(dataDir).then((names) => names.filter((left) => /\d$/.test(left))), [])
  }
})

t.test('gives a stale lock to one of several starts only', async (t) => {
  const stale = JSON.stringify({ pid: 1, identity: 'long gone' })
  const root = t.testdir(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [i, { lock: stale }])))
  const folders = Array.from({ length: 20 }, (_, i) => path.join(root, String(i)))
  const starts = Array.from({ length: 6 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', LOCK_ALL, ...folders], { stdio: ['pipe', 'pipe', 'inherit'] }))
  t.teardown(() => { for (const start of starts) start.kill('SIGKILL') })
  // All at the same moment, and not one after the other as processes come up.
  await Promise.all(starts.map(async (start) => await once(start.stdout, 'data')))
  const said = Promise.all(starts.map(async (start) => await once(start.stdout, 'data')))
  for (const start of starts) start.stdin.write('go')

  const outcomes = (await said).map(([line]) => JSON.parse(String(line)) as string[])
  const right = ['locked', ...Array.from({ length: 5 }, () => 'MILLRACE_ALREADY_RUNNING')].sort()
  for (const i of folders.keys()) t.same(outcomes.map((of) => of[i]).sort(), right)
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
