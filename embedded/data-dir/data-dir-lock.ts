import { chmod, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import { type FileLock, makeFolder, tryLockFile } from '../../platform/durable-folder.ts'
import { explainUnusable } from './check-data-dir.ts'
import { readProcessIdentity } from '../supervisor/processes/recorded-processes.ts'

/** Another stack is running on the data directory. */
export class DataDirLockedError extends MillraceError {
  /** @param holder  Its process; undefined when that is in another container. */
  constructor (dataDir: string, holder: number | undefined) {
    super('MILLRACE_ALREADY_RUNNING', holder === undefined
      ? `Millrace is already running on ${dataDir}, in another container. Stop that one, or use another volume to run a second one`
      : `Millrace is already running on ${dataDir}, as process ${holder}. ` +
        `Stop it with "kill ${holder}", or set another MILLRACE_DATA_DIR and other ports to run a second one`)
    this.name = 'DataDirLockedError'
  }
}

/** The data directory is a copy of one that was in use: its parts are not of one moment. */
export class DataDirCopiedError extends MillraceError {
  constructor (dataDir: string) {
    super('MILLRACE_DATA_DIR_COPIED', `${dataDir} was copied while Millrace ran on the original, so its stores do not match each other, ` +
      'and events may be missing or counted twice. Copy it again when Millrace is stopped, or take a backup with "npx millrace backup". ' +
      `To use the copy nevertheless, remove ${path.join(dataDir, 'lock')}`)
    this.name = 'DataDirCopiedError'
  }
}

export interface DataDirLock {
  release (): Promise<void>
}

/**
 * Locked by the kernel while a stack runs, for stacks of other containers, where process numbers mean others. It says
 * nothing else, so it stays.
 */
const HELD = 'lock.held'

/** A lock file renamed this long after it was written is a copy, not made by this program, ms. */
const COPY_AFTER_MS = 10_000

/** How long a start waits for others that check the lock at the same moment. */
const MAX_WAIT_MS = 10_000
const PAUSE_MS = 10

/**
 * Makes this process the only stack on the data directory, which is created when missing.
 *
 * The lock is a file with the pid and the start time of its holder. A holder that was killed does not remove it; the
 * file then names a process that no longer runs, and is taken over. It also has its own inode, by which a copy of a
 * data directory in use is known: the stopped one has no lock.
 *
 * @throws {DataDirLockedError} naming the holder.
 * @throws {DataDirCopiedError} for a copy of a data directory in use.
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
    await writeFile(mine, '')
    const { ino: inode } = await stat(mine)
    const identity = await readProcessIdentity(process.pid)
    await writeFile(mine, JSON.stringify({ pid: process.pid, identity, inode, writtenAt: Date.now() }))
    const guard = await enterGuard(path.join(dataDir, 'lock.guard'))
    try {
      await refuseCopy(dataDir, file)
      const holder = await findHolder(file)
      const held = holder === undefined ? tryLockFile(path.join(dataDir, HELD)) : null
      if (held === null) throw new DataDirLockedError(dataDir, holder)
      await rename(mine, file)
      return {
        async release () {
          await rm(file, { force: true })
          held.release()
        }
      }
    } finally {
      guard.release()
    }
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

/**
 * A copy has another inode, and later times: both must differ, as some file systems number a file anew at each mount.
 *
 * @throws {DataDirCopiedError}
 */
async function refuseCopy (dataDir: string, file: string): Promise<void> {
  const { inode, writtenAt } = parseLock(await readLock(file))
  if (typeof inode !== 'number' || typeof writtenAt !== 'number') return
  const { ino, ctimeMs } = await stat(file)
  if (ino !== inode && ctimeMs - writtenAt > COPY_AFTER_MS) throw new DataDirCopiedError(dataDir)
}

/** The id of the process that holds the data directory; undefined when none does, as after it was killed. */
export async function readLockHolder (dataDir: string): Promise<number | undefined> {
  return await findHolder(path.join(dataDir, 'lock'))
}

/** Whether a stack of another container holds the data directory, of which `readLockHolder` knows nothing. */
export async function isHeldElsewhere (dataDir: string): Promise<boolean> {
  const file = path.join(dataDir, HELD)
  // Not made here: a command of root would make it root's.
  if (!await stat(file).then(() => true, () => false)) return false
  const guard = await enterGuard(path.join(dataDir, 'lock.guard'))
  try {
    const held = tryLockFile(file)
    held?.release()
    return held === null
  } finally {
    guard.release()
  }
}

async function findHolder (file: string): Promise<number | undefined> {
  const { pid, identity } = parseLock(await readLock(file))
  if (typeof pid !== 'number' || typeof identity !== 'string') return undefined
  return await readProcessIdentity(pid) === identity ? pid : undefined
}

async function readLock (file: string): Promise<string> {
  return await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
}

function parseLock (content: string): Partial<Record<'pid' | 'identity' | 'inode' | 'writtenAt', unknown>> {
  try {
    return JSON.parse(content) as Record<string, unknown>
  } catch {
    // Absent, or cut off by a full disk or a power loss: nobody holds it.
    return {}
  }
}
