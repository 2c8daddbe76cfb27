import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { waitFor } from '../../../test/support/wait-for.ts'
import { readProcessIdentity } from './recorded-processes.ts'
import { waitUntilReady } from './service.ts'
import { spawnProcess } from './spawn-process.ts'

/** Ends only when it is killed. */
const STUBBORN = 'trap "" TERM; echo armed; while :; do sleep 0.1; done'

t.test('ends a child whose starter was killed without a chance to end it', async (t) => {
  const logFile = path.join(t.testdir(), 'child.log')
  const source = path.join(import.meta.dirname, 'spawn-process.ts')
  const starter = spawn(process.execPath, ['--input-type=module', '-e', `
    import { spawnProcess } from ${JSON.stringify(source)}
    const child = await spawnProcess({
      name: 'child', command: 'sleep', args: ['60'], env: {}, logFile: ${JSON.stringify(logFile)}
    })
    console.log(child.pid)
    setInterval(() => {}, 1000)
  `], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(starter.stdout, 'data') as [Buffer]
  const pid = Number(line.toString())
  t.ok(await readProcessIdentity(pid))

  starter.kill('SIGKILL')

  await waitFor(async () => await readProcessIdentity(pid) === undefined)
})

t.test('kills a child that ignores the request to end, with its own children', async (t) => {
  const logFile = path.join(t.testdir(), 'child.log')
  const child = await spawnProcess({
    name: 'stubborn', command: 'sh', args: ['-c', STUBBORN], env: { PATH: process.env.PATH }, logFile, stopTimeoutMs: 200
  })
  await waitFor(async () => (await readFile(logFile, 'utf8')).includes('armed'))

  await child.stop()

  t.same(await child.exited, { code: null, signal: 'SIGKILL', requested: true })
  t.equal(await readProcessIdentity(child.pid), undefined)
})

t.test('tells an end of its own from a requested one', async (t) => {
  const logFile = path.join(t.testdir(), 'child.log')
  const child = await spawnProcess({ name: 'short', command: 'sh', args: ['-c', 'exit 3'], env: {}, logFile })

  t.same(await child.exited, { code: 3, signal: null, requested: false })
  await child.stop()
})

t.test('rejects for a command that does not exist', async (t) => {
  const logFile = path.join(t.testdir(), 'child.log')

  await t.rejects(spawnProcess({ name: 'none', command: '/does/not/exist', args: [], env: {}, logFile }), /none: cannot run/)
})

t.test('a process that ends at its start is explained by its own lines, not by those of an earlier one', async (t) => {
  const logFile = path.join(t.testdir(), 'child.log')
  await writeFile(logFile, 'of last week\n'.repeat(10))
  const start = async (script: string): Promise<void> => {
    const child = await spawnProcess({ name: 'child', command: 'sh', args: ['-c', script], env: { PATH: process.env.PATH }, logFile })
    await waitUntilReady(child, { isReady: async () => await Promise.resolve(false), timeoutMs: 20_000 })
  }

  await t.rejects(start('echo the reason; exit 1'), { message: `child ended with code 1. Last lines of its log ${logFile}:\nthe reason\n` })
  await t.rejects(start('exit 1'), { message: `child ended with code 1. It wrote nothing to its log ${logFile}` })
  await t.rejects(start('for i in 1 2 3 4; do printf %01000d\\\\n $i; done; exit 1'),
    { message: /:\n(0{999}\d\n){2}$/ }, 'whole lines')
})
