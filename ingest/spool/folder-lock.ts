import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Ends when the process does, however it ends. */
export interface FolderLock {
  release (): void
}

/** SQLite's result code for a database that another process has locked. */
const SQLITE_BUSY = 5

/**
 * Takes the folder for this process, if no living process has it; creates it when it is missing.
 *
 * The lock is SQLite's lock on an empty database in the folder: the operating system releases it with the process,
 * also after kill -9, on every platform. Node itself has no file locks, and pid files lie once a pid is used again.
 *
 * @returns null when another process has the folder.
 */
export function tryLockFolder (folder: string): FolderLock | null {
  mkdirSync(folder, { recursive: true })
  const database = new DatabaseSync(path.join(folder, 'lock'))
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE')
    return { release: () => database.close() }
  } catch (error) {
    database.close()
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return null
    throw error
  }
}
