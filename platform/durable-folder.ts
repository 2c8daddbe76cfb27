/** Folders with state (data directory, spool, backup): for one process at a time, and whole after a power failure. */
import { mkdir, open, stat } from 'node:fs/promises'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { errorCode } from '../engines/errors.ts'

/** Ends when the process does, however it ends. */
export interface FileLock {
  release (): void
}

/** A database that nobody refers to is closed, and its lock gone, when the garbage collector comes by. */
const held = new Set<DatabaseSync>()

/** SQLite's result code for a database that another connection has locked. */
const SQLITE_BUSY = 5

/**
 * Takes a file for this process, if nobody has it; creates it, empty, when it is missing.
 *
 * The lock is SQLite's lock on an empty database: the operating system releases it with the process, also after
 * kill -9, on every platform. Node itself has no file locks, and pid files lie once a pid is used again.
 *
 * @param file  Its folder exists. The file stays when the lock is released.
 * @returns null when another process has the file, or another lock of this one.
 * @throws an error of SQLite when the file can be neither opened nor created.
 */
export function tryLockFile (file: string): FileLock | null {
  const database = new DatabaseSync(file)
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    held.add(database)
    return {
      release () {
        if (held.delete(database)) database.close()
      }
    }
  } catch (error) {
    database.close()
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return null
    throw error
  }
}

/**
 * Creates a folder, with those above it that are missing. For folders that a setting names: Node's own recursive
 * `mkdir` never ends, at full load, where the system finds no file although the folder above is there, as in `/proc`
 * (Node 26.10).
 *
 * @returns whether it was missing.
 * @throws the system's error when it cannot be made, or is no folder.
 */
export async function makeFolder (folder: string, { mode = 0o777 }: { mode?: number } = {}): Promise<boolean> {
  try {
    await mkdir(folder, { mode })
    return true
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EEXIST' && (await stat(folder)).isDirectory()) return false
    const parent = path.dirname(folder)
    if (code !== 'ENOENT' || parent === folder) throw error
    await makeFolder(parent, { mode })
  }
  // Of two that make it at once, the slower one finds it.
  return await mkdir(folder, { mode }).then(() => true, (error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return false
    throw error
  })
}

/**
 * Makes created, renamed and removed names of a folder durable: a file that was flushed itself can still be without its
 * name after a power failure.
 */
export async function flushFolder (folder: string): Promise<void> {
  await using handle = await open(folder, 'r')
  await handle.sync()
}
