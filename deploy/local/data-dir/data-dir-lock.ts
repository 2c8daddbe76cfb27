import { chmod, link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
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

const ATTEMPTS = 20

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
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      // A link is made for one of several processes only, and with its content.
      const taken = await link(mine, file).then(() => true, ignore('EEXIST'))
      if (taken) return { async release () { await rm(file, { force: true }) } }
      await removeStale(dataDir, file)
    }
    throw new Error(`could not lock ${file} in ${ATTEMPTS} attempts`)
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
    throw new MillraceError('MILLRACE_DATA_DIR_UNUSABLE', `cannot write to the data directory ${dataDir} ` +
      `(${(cause as Error).message}): set MILLRACE_DATA_DIR to a folder that this user may write to`, { cause })
  }
}

async function removeStale (dataDir: string, file: string): Promise<void> {
  const content = await readFile(file, 'utf8').catch(ignore('ENOENT'))
  if (content === false) return
  const holder = parseHolder(content)
  if (holder !== undefined && await readProcessIdentity(holder.pid) === holder.identity) {
    throw new DataDirLockedError(dataDir, holder.pid)
  }
  // Two starts may both find the file stale. The slower one would remove the lock of the faster one, so the file is
  // moved away, looked at, and put back when it is not the stale one.
  const aside = path.join(dataDir, `lock.stale.${process.pid}`)
  const moved = await rename(file, aside).then(() => true, ignore('ENOENT'))
  if (!moved) return
  if (await readFile(aside, 'utf8') !== content) await link(aside, file).catch(ignore('EEXIST'))
  await rm(aside, { force: true })
}

function parseHolder (content: string): { pid: number, identity: string } | undefined {
  try {
    const holder = JSON.parse(content) as { pid?: unknown, identity?: unknown }
    return typeof holder.pid === 'number' && typeof holder.identity === 'string'
      ? { pid: holder.pid, identity: holder.identity }
      : undefined
  } catch {
    // Cut off by a full disk or a power loss: nobody holds it.
    return undefined
  }
}

/** For `catch`: answers false to the expected error, throws any other. */
function ignore (code: string): (error: NodeJS.ErrnoException) => false {
  return (error) => {
    if (error.code !== code) throw error
    return false
  }
}
