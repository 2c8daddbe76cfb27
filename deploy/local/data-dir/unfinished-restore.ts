import { open, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { MillraceError } from '../../../platform/errors.ts'
import { flushFolder } from '../../../platform/durable-folder.ts'

/**
 * In a data directory from the first byte of a restore to its last: anyone who finds it knows that the rest is a part
 * of a backup only.
 */
export const UNFINISHED_RESTORE = 'restore-unfinished.json'

/**
 * Marks a data directory as half restored, before anything else is put there.
 *
 * @param folder  Of the backup.
 */
export async function beginRestore (dataDir: string, folder: string): Promise<void> {
  const file = await open(path.join(dataDir, UNFINISHED_RESTORE), 'w', 0o600)
  try {
    await file.writeFile(JSON.stringify({ folder }))
    await file.sync()
  } finally {
    await file.close()
  }
  await flushFolder(dataDir)
}

/** Takes the mark away: the data directory is whole, or empty. */
export async function endRestore (dataDir: string): Promise<void> {
  await rm(path.join(dataDir, UNFINISHED_RESTORE), { force: true })
  await flushFolder(dataDir)
}

/** @throws {MillraceError} `MILLRACE_RESTORE_UNFINISHED` when a restore was interrupted: events would be missing. */
export async function refuseUnfinishedRestore (dataDir: string): Promise<void> {
  const mark = await readFile(path.join(dataDir, UNFINISHED_RESTORE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (mark === undefined) return
  throw new MillraceError('MILLRACE_RESTORE_UNFINISHED', `the data directory ${dataDir} holds a part of a backup only: ` +
    `its restore was interrupted. Run "npx millrace restore ${readFolder(mark)}" again, which starts over, or remove ` +
    'the data directory')
}

function readFolder (mark: string): string {
  try {
    return String((JSON.parse(mark) as { folder?: unknown }).folder ?? '<folder>')
  } catch {
    // Cut off by a power loss.
    return '<folder>'
  }
}
