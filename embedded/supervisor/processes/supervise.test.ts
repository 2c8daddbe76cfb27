import path from 'node:path'
import t from 'tap'
import { waitFor } from '../../../test/support/wait-for.ts'
import { keepRunning } from './supervise.ts'
import { readProcessIdentity } from './recorded-processes.ts'
import { type ManagedProcess, spawnProcess } from './spawn-process.ts'

t.test('starts a process again that was killed, and says so', async (t) => {
  const { said, started, start } = createSleeper(t.testdir())
  const { first, kept } = await keepRunning({ start, ...said.hooks }, new AbortController().signal)
  t.teardown(() => kept.stop())

  first.kill('SIGKILL')

  await waitFor(() => said.lines.length === 2)
  t.same(said.lines, ['sleeper ended with SIGKILL', 'sleeper runs again'])
  t.equal(started.length, 2)
})

t.test('keeps trying while a process cannot be started', async (t) => {
  const { said, started, start } = createSleeper(t.testdir())
  let broken = false
  const { first, kept } = await keepRunning({
    ...said.hooks,
    async start () {
      if (broken) {
        broken = false
        throw new Error('not now')
      }
      return await start()
    }
  }, new AbortController().signal)
  t.teardown(() => kept.stop())

  broken = true
  first.kill('SIGKILL')

  await waitFor(() => started.length === 2)
  await waitFor(() => said.lines.length === 3)
  t.same(said.lines, ['sleeper ended with SIGKILL', 'sleeper failed: not now', 'sleeper runs again'])
})

t.test('does not restart a stopped process', async (t) => {
  const { said, started, start } = createSleeper(t.testdir())
  const { first, kept } = await keepRunning({ start, ...said.hooks }, new AbortController().signal)

  await kept.stop()

  t.equal(await readProcessIdentity(first.pid), undefined)
  t.same(said.lines, [])
  t.equal(started.length, 1)
})

t.test('throws what the first start throws', async (t) => {
  const { said } = createSleeper(t.testdir())
  const start = async (): Promise<ManagedProcess> => { throw new Error('cannot') }

  await t.rejects(keepRunning({ start, ...said.hooks }, new AbortController().signal), /cannot/)
})

function createSleeper (folder: string) {
  const lines: string[] = []
  const started: number[] = []
  return {
    started,
    said: {
      lines,
      hooks: {
        onExit: (name: string, { signal }: { signal: string | null }) => { lines.push(`${name} ended with ${signal}`) },
        onFailedStart: (name: string, error: unknown) => { lines.push(`${name} failed: ${(error as Error).message}`) },
        onRestart: (name: string) => { lines.push(`${name} runs again`) }
      }
    },
    async start () {
      const logFile = path.join(folder, 'sleeper.log')
      const child = await spawnProcess({ name: 'sleeper', command: 'sleep', args: ['60'], env: {}, logFile })
      started.push(child.pid)
      return child
    }
  }
}
