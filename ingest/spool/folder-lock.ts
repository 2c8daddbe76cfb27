import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { tryLockFile, type FileLock } from '../../platform/durable-folder.ts'

/**
 * Takes the folder for this process, if no living process has it; creates it when it is missing.
 *
 * @returns null when another process has the folder.
 */
export function tryLockFolder (folder: string): FileLock | null {
  mkdirSync(folder, { recursive: true })
  return tryLockFile(path.join(folder, 'lock'))
}
