/** Backups and data directories must lie side by side: what is inside the other goes away, or is copied, with it. */
import { realpath } from 'node:fs/promises'
import path from 'node:path'
import { MillraceError } from '../../engines/errors.ts'
import { readManifest } from './backup-folder.ts'

/**
 * Refuses a new backup inside the data directory, with which it would be lost, or inside another backup, with which it
 * would be removed.
 *
 * @throws {MillraceError} `MILLRACE_FOLDER_UNUSABLE`.
 */
export async function refuseNestedBackup ({ dataDir, folder }: { dataDir: string, folder: string }): Promise<void> {
  const target = await resolve(folder)
  if (isWithin(target, await resolve(dataDir))) {
    throw unusable(`${folder} is inside the data directory ${dataDir}, and the backup would be lost with it: choose a folder outside, ` +
      'best on another disk')
  }
  const around = await findBackupAround(path.dirname(target))
  if (around !== undefined) {
    throw unusable(`${folder} is inside the backup ${around}, and would be removed with it: choose a folder outside`)
  }
}

/**
 * Refuses to restore into a folder of a backup, which would not be the backup that was made any more, or from a folder
 * inside the data directory, which a restore empties when it fails.
 *
 * @throws {MillraceError} `MILLRACE_FOLDER_UNUSABLE`.
 */
export async function refuseNestedRestore ({ dataDir, folder }: { dataDir: string, folder: string }): Promise<void> {
  const target = await resolve(dataDir)
  const around = await findBackupAround(target)
  if (around !== undefined) {
    throw unusable(`the data directory ${dataDir} is inside the backup ${around}: set MILLRACE_DATA_DIR to a folder outside`)
  }
  if (isWithin(await resolve(folder), target)) {
    throw unusable(`the backup ${folder} is inside the data directory ${dataDir}: move one of them, or set MILLRACE_DATA_DIR to another folder`)
  }
}

/** The folder itself, or the nearest one above it, that is a backup. */
async function findBackupAround (folder: string): Promise<string | undefined> {
  if (await readManifest(folder).then(() => true, () => false)) return folder
  const parent = path.dirname(folder)
  return parent === folder ? undefined : await findBackupAround(parent)
}

function isWithin (folder: string, outer: string): boolean {
  return folder === outer || folder.startsWith(outer.endsWith(path.sep) ? outer : `${outer}${path.sep}`)
}

/** Without symbolic links, also of a folder that is not there yet. */
async function resolve (folder: string): Promise<string> {
  const real = await realpath(folder).catch(() => undefined)
  if (real !== undefined) return real
  const parent = path.dirname(folder)
  return parent === folder ? folder : path.join(await resolve(parent), path.basename(folder))
}

function unusable (why: string): MillraceError {
  return new MillraceError('MILLRACE_FOLDER_UNUSABLE', why)
}
