import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { waitUntilReady } from './service.ts'
import { spawnProcess } from './spawn-process.ts'

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
