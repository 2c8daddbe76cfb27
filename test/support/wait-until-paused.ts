import { readdir, readFile } from 'node:fs/promises'
import { waitFor } from './wait-for.ts'

/**
 * Waits until a process that was sent SIGSTOP stands still. The signal reaches its threads one by one: a nats-server
 * answered once in a hundred times after the call had returned.
 *
 * Only Linux tells; elsewhere it returns at once.
 */
export async function waitUntilPaused (pid: number): Promise<void> {
  if (process.platform !== 'linux') return
  await waitFor(async () => (await readThreadStates(pid)).every((state) => state === 'T'), { everyMs: 1 })
}

async function readThreadStates (pid: number): Promise<string[]> {
  const threads = await readdir(`/proc/${pid}/task`)
  return await Promise.all(threads.map(async (thread) => {
    // A thread may end meanwhile.
    const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => ') T')
    return stat.charAt(stat.lastIndexOf(')') + 2)
  }))
}
