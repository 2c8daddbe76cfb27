import { readdir, readFile, readlink, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** A server that shuts down fast needs about as long as one checkpoint. */
const POLITE_MS = 5000

/**
 * Makes way for a new server on a cluster whose last one was not stopped.
 *
 * The caller holds the data directory, so nobody else runs a server on it: processes of the last one are ended, and
 * a `postmaster.pid` that by now names an unrelated process, which would make the new server refuse, is removed.
 * A lock file whose process is gone is left to Postgres, which knows how to judge it. Linux only; elsewhere Postgres
 * alone decides.
 */
export async function endLeftoverPostgres (cluster: string): Promise<void> {
  if (process.platform !== 'linux') return
  const deadline = performance.now() + POLITE_MS
  let leftover = await findServers(cluster)
  // The fast shutdown; the server tells its own processes.
  for (const pid of leftover) signal(pid, 'SIGINT')
  while (leftover.length > 0 && performance.now() < deadline) {
    await delay(50)
    leftover = await findServers(cluster)
  }
  for (const pid of leftover) signal(pid, 'SIGKILL')
  while ((await findServers(cluster)).length > 0 && performance.now() < deadline + POLITE_MS) await delay(50)

  const lockFile = path.join(cluster, 'postmaster.pid')
  const pid = Number.parseInt(await readFile(lockFile, 'utf8').catch(() => ''), 10)
  if (Number.isInteger(pid) && isAlive(pid)) await rm(lockFile, { force: true })
}

/** Postgres processes whose working directory is the cluster: every process of a server has it. */
async function findServers (cluster: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const workingDir = await readlink(`/proc/${pid}/cwd`).catch(() => '')
    if (workingDir !== cluster) continue
    const command = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')
    if (command.trim() === 'postgres') found.push(pid)
  }
  return found
}

function signal (pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // Ended in the meantime.
  }
}

function isAlive (pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
