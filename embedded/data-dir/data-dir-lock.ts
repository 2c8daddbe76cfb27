import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import { type FileLock, makeFolder, tryLockFile } from '../../platform/durable-folder.ts'
import { explainUnusable } from './check-data-dir.ts'
import { readProcessIdentity } from '../supervisor/processes/recorded-processes.ts'

/** Another stack is running on the data directory. */
export class DataDirLockedError extends MillraceError {
  constructor (dataDir: string, holder: number) {
    super('MILLRACE_ALREADY_RUNNING', `Millrace is already running on ${dataDir}, as process ${holder}. ` +
      `Stop it with "kill ${holder}", or set another MILLRACE_DATA_DIR and other ports to run a second one`)
    this.name = 'DataDirLockedError'
  }
}

export interface DataDirLock {
  release (): Promise<void>
}

/** How long a start waits for others that check the lock at the same moment. */
const MAX_WAIT_MS = 10_000
const PAUSE_MS = 10

/**
 * Makes this process the only stack on the data directory, which is created when missing.
 *
 * The lock is a file with the pid and the start time of its holder. A holder that was killed does not remove it; the
 * file then names a process that no longer runs, and is taken over.
 *
 * @throws {DataDirLockedError} naming the holder.
 * @throws {MillraceError} `MILLRACE_DATA_DIR_UNUSABLE` or `MILLRACE_DATA_DIR_FULL` when nothing can be written there.
 */
export async function lockDataDir (dataDir: string): Promise<DataDirLock> {
  try {
    return await takeLock(dataDir)
  } catch (cause) {
    if (cause instanceof MillraceError) throw cause
    throw await explainUnusable(dataDir, cause)
  }
}

async function takeLock (dataDir: string): Promise<DataDirLock> {
  // Others may enter, but not list it: started by root, Postgres runs as another user.
  if (await makeFolder(path.resolve(dataDir))) await chmod(dataDir, 0o711)
  const file = path.join(dataDir, 'lock')
  const mine = path.join(dataDir, `lock.${process.pid}`)
  try {
    await writeFile(mine, JSON.stringify({ pid: process.pid, identity: await readProcessIdentity(process.pid) }))
    const guard = await enterGuard(path.join(dataDir, 'lock.guard'))
    try {
      await refuseWhenHeld(dataDir, file)
      await rename(mine, file)
    } finally {
      guard.release()
    }
    return { async release () { await rm(file, { force: true }) } }
  } finally {
    await rm(mine, { force: true })
  }
}

/**
 * Lets one start at a time check and replace the lock: of two that found it stale, the slower one would replace the
 * lock of the faster one.
 */
async function enterGuard (file: string): Promise<FileLock> {
  for (let waitedMs = 0; waitedMs < MAX_WAIT_MS; waitedMs += PAUSE_MS) {
    const guard = tryLockFile(file)
    if (guard !== null) return guard
    await delay(PAUSE_MS)
  }
  throw new Error(`another process has held ${file} for ${MAX_WAIT_MS / 1000} seconds`)
}

/** @throws {DataDirLockedError} when the process that the lock names still runs. */
async function refuseWhenHeld (dataDir: string, file: string): Promise<void> {
  const holder = await findHolder(file)
  if (holder !== undefined) throw new DataDirLockedError(dataDir, holder)
}

/** The id of the process that holds the data directory; undefined when none does, as after it was killed. */
export async function readLockHolder (dataDir: string): Promise<number | undefined> {
  return await findHolder(path.join(dataDir, 'lock'))
}

async function findHolder (file: string): Promise<number | undefined> {
  const content = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  const holder = parseHolder(content)
  return holder !== undefined && await readProcessIdentity(holder.pid) === holder.identity ? holder.pid : undefined
}

function parseHolder (content: string): { pid: number, identity: string } | undefined {
  try {
    const holder = JSON.parse(content) as { pid?: unknown, identity?: unknown }
    return typeof holder.pid === 'number' && typeof holder.identity === 'string'
      ? { pid: holder.pid, identity: holder.identity }
      : undefined
  } catch {
    // Absent, or cut off by a full disk or a power loss: nobody holds it.
    return undefined
  }
}
