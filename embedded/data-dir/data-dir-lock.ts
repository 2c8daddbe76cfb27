import { chmod, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import { type FileLock, makeFolder, tryLockFile } from '../../platform/durable-folder.ts'
import { explainUnusable } from './check-data-dir.ts'
import { readProcessIdentity } from '../supervisor/processes/recorded-processes.ts'

/** @param holder  The process of the other stack; undefined when that is in another container. */
function alreadyRunning (dataDir: string, holder: number | undefined): MillraceError {
  return new MillraceError('MILLRACE_ALREADY_RUNNING', holder === undefined
    ? `Millrace is already running on ${dataDir}, in another container. Stop that one, or use another volume to run a second one`
    : `Millrace is already running on ${dataDir}, as process ${holder}. ` +
      `Stop it with "kill ${holder}", or set another MILLRACE_DATA_DIR and other ports to run a second one`)
}

/** Locked by the kernel while a stack runs: process numbers mean others in other containers. It is empty, and stays. */
const HELD = 'lock.held'

/** A lock file renamed this long after it was written is a copy, not made by this program, ms. */
const COPY_AFTER_MS = 10_000

/** How long a start waits for another one, or for a command that looks at the lock, ms. */
const MAX_WAIT_MS = 1000
const PAUSE_MS = 10

/**
 * Makes this process the only stack on the data directory, which is created when missing.
 *
 * The kernel locks one file; another one has the pid and the start time of the holder. A holder that was killed does
 * not remove it; it then names a process that no longer runs. It also has its own inode, by which a copy of a data
 * directory in use is known: a stopped one has no such file.
 *
 * @throws {MillraceError} `MILLRACE_ALREADY_RUNNING` naming the holder, `MILLRACE_DATA_DIR_COPIED` for a copy of a data
 *   directory in use, `MILLRACE_DATA_DIR_UNUSABLE` or `MILLRACE_DATA_DIR_FULL` when nothing can be written there.
 */
export async function lockDataDir (dataDir: string): ReturnType<typeof takeLock> {
  try {
    return await takeLock(dataDir)
  } catch (cause) {
    if (cause instanceof MillraceError) throw cause
    throw await explainUnusable(dataDir, cause)
  }
}

async function takeLock (dataDir: string) {
  // Others may enter, but not list it: started by root, Postgres runs as another user.
  if (await makeFolder(path.resolve(dataDir))) await chmod(dataDir, 0o711)
  const file = path.join(dataDir, 'lock')
  const held = await holdFile(dataDir)
  try {
    await refuseCopy(dataDir, file)
    await writeFile(file, '')
    const { ino: inode } = await stat(file)
    const identity = await readProcessIdentity(process.pid)
    await writeFile(file, JSON.stringify({ pid: process.pid, identity, inode, writtenAt: Date.now() }))
  } catch (error) {
    held.release()
    throw error
  }
  return {
    async release (): Promise<void> {
      await rm(file, { force: true })
      held.release()
    }
  }
}

async function holdFile (dataDir: string): Promise<FileLock> {
  for (let waitedMs = 0; ; waitedMs += PAUSE_MS) {
    const held = tryLockFile(path.join(dataDir, HELD))
    if (held !== null) return held
    const holder = await readLockHolder(dataDir)
    if (holder !== undefined || waitedMs >= MAX_WAIT_MS) throw alreadyRunning(dataDir, holder)
    await delay(PAUSE_MS)
  }
}

/**
 * A copy has another inode, and later times: both must differ, as some file systems number a file anew at each mount.
 * The parts of such a copy are not of one moment.
 */
async function refuseCopy (dataDir: string, file: string): Promise<void> {
  const { inode, writtenAt } = parseLock(await readLock(file))
  if (typeof inode !== 'number' || typeof writtenAt !== 'number') return
  const { ino, ctimeMs } = await stat(file)
  if (ino === inode || ctimeMs - writtenAt <= COPY_AFTER_MS) return
  throw new MillraceError('MILLRACE_DATA_DIR_COPIED', `${dataDir} was copied while Millrace ran on the original, so its stores do not match each other, ` +
    'and events may be missing or counted twice. Copy it again when Millrace is stopped, or take a backup with "npx millrace backup". ' +
    `To use the copy nevertheless, remove ${file}`)
}

/** The id of the process that holds the data directory; undefined when none does, as after it was killed. */
export async function readLockHolder (dataDir: string): Promise<number | undefined> {
  const { pid, identity } = parseLock(await readLock(path.join(dataDir, 'lock')))
  if (typeof pid !== 'number' || typeof identity !== 'string') return undefined
  return await readProcessIdentity(pid) === identity ? pid : undefined
}

/** Whether a stack of another container holds the data directory, of which `readLockHolder` knows nothing. */
export async function isHeldElsewhere (dataDir: string): Promise<boolean> {
  const file = path.join(dataDir, HELD)
  // Not made here: a command of root would make it root's.
  if (!await stat(file).then(() => true, () => false)) return false
  const held = tryLockFile(file)
  held?.release()
  return held === null
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
