import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../../platform/errors.ts'
import { readProcessIdentity } from '../processes/process-identity.ts'

/** Another stack runs on the data directory. */
export class DataDirLockedError extends MillraceError {
  constructor (dataDir: string, holder: number) {
    super('MILLRACE_ALREADY_RUNNING', `Millrace runs already on ${dataDir}, as process ${holder}. ` +
      `Stop it with "kill ${holder}", or choose another MILLRACE_DATA_DIR and other ports for a second one`)
    this.name = 'DataDirLockedError'
  }
}

export interface DataDirLock {
  release (): Promise<void>
}

/** How long a start waits for others that look at the lock at the same moment. */
const MAX_WAIT_MS = 10_000
const PAUSE_MS = 10

/** SQLite's result code for a database that another connection has locked. */
const SQLITE_BUSY = 5

/**
 * Makes this process the only stack on the data directory, which is created when missing.
 *
 * The lock is a file with the pid and the start time of its holder. A holder that was killed does not remove it; the
 * file then names a process that does not run any more, and is taken over.
 *
 * @throws {DataDirLockedError} naming the holder.
 * @throws {MillraceError} `MILLRACE_DATA_DIR_UNUSABLE` when nothing can be written there.
 */
export async function lockDataDir (dataDir: string): Promise<DataDirLock> {
  const file = path.join(dataDir, 'lock')
  const mine = path.join(dataDir, `lock.${process.pid}`)
  await makeDataDir(dataDir, mine)
  try {
    const guard = await enterGuard(dataDir)
    try {
      await refuseWhenHeld(dataDir, file)
      await rename(mine, file)
    } finally {
      guard.close()
    }
    return { async release () { await rm(file, { force: true }) } }
  } finally {
    await rm(mine, { force: true })
  }
}

/** Creates the folder when missing, and in it the file that is to become the lock. */
async function makeDataDir (dataDir: string, mine: string): Promise<void> {
  try {
    // Others may pass through, not look around: for root, Postgres runs as another user.
    if (await mkdir(dataDir, { recursive: true }) !== undefined) await chmod(dataDir, 0o711)
    await writeFile(mine, JSON.stringify({ pid: process.pid, identity: await readProcessIdentity(process.pid) }))
  } catch (cause) {
    throw unusable(dataDir, cause)
  }
}

function unusable (dataDir: string, cause: unknown): MillraceError {
  return new MillraceError('MILLRACE_DATA_DIR_UNUSABLE', `cannot write to the data directory ${dataDir} ` +
    `(${(cause as Error).message}): set MILLRACE_DATA_DIR to a folder that this user may write to`, { cause })
}

/**
 * Lets one start at a time look at the lock and replace it: of two that found it stale, the slower one would replace
 * the lock of the faster one. SQLite's lock on an empty database goes with its process, also after kill -9.
 */
async function enterGuard (dataDir: string): Promise<DatabaseSync> {
  const guard = new DatabaseSync(path.join(dataDir, 'lock.guard'))
  for (let waitedMs = 0; ; waitedMs += PAUSE_MS) {
    try {
      guard.exec('PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE')
      return guard
    } catch (error) {
      if ((error as { errcode?: number }).errcode === SQLITE_BUSY && waitedMs < MAX_WAIT_MS) {
        await delay(PAUSE_MS)
        continue
      }
      guard.close()
      throw unusable(dataDir, error)
    }
  }
}

/** @throws {DataDirLockedError} when the process that the lock names still runs. */
async function refuseWhenHeld (dataDir: string, file: string): Promise<void> {
  const content = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  const holder = parseHolder(content)
  if (holder !== undefined && await readProcessIdentity(holder.pid) === holder.identity) {
    throw new DataDirLockedError(dataDir, holder.pid)
  }
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
