/** Whether a stack may start on a data directory: it can be written to, has room, and is not half restored. */
import { access, constants, lstat, readdir, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fieldsOf } from '../../engines/fields.ts'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import { flushFolder } from '../../platform/durable-folder.ts'

/** Free space and free files (inodes) of a file system. */
export interface Room {
  bytes: number
  /** Infinity where the file system makes inodes as they are needed, as btrfs does. */
  files: number
}

/**
 * A first start with all services inside writes 44 MB in 1,860 files, 43 MB of it the empty cluster of Postgres
 * (measured on tmpfs, 22 November 2026). With less than this the first merge or checkpoint would fail instead.
 */
export const ROOM_OF_FIRST_START: Room = { bytes: 100_000_000, files: 2500 }

/** Postgres replays its log before it is ready, in files of 16 MB; logs and pid files are some dozen. */
export const ROOM_OF_START: Room = { bytes: 20_000_000, files: 100 }

/**
 * Present in a data directory from the first byte of a restore to its last: while it is there, the data directory
 * holds only part of a backup.
 */
export const UNFINISHED_RESTORE = 'restore-unfinished.json'

/** How programs, Node, ClickHouse and SQLite report a disk that cannot be written to. */
const DISK_FULL = /no space left on device|not enough space|NOT_ENOUGH_SPACE|disk quota exceeded|ENOSPC|EDQUOT|disk is full/i
const READ_ONLY = /read-only file system|EROFS/i
const NOT_ALLOWED = /EACCES|EPERM|permission denied|operation not permitted/i

const MAKE_ROOM = 'make room, or set MILLRACE_DATA_DIR to a folder on another disk'

/** @throws {MillraceError} `MILLRACE_DATA_DIR_FULL` when a start would fail half-way for lack of room. */
export async function checkRoom (dataDir: string, needed: Room): Promise<void> {
  const room = await readRoom(await findExisting(dataDir))
  if (room.bytes >= needed.bytes && room.files >= needed.files) return
  throw full(`the disk of the data directory ${dataDir} is full: ${describeRoom(room)} are free, ` +
    `but a start needs ${describeRoom(needed)}: ${MAKE_ROOM}`)
}

/**
 * Explains in one sentence why a data directory cannot be written to, and what to do.
 *
 * @param cause  What the first write failed with.
 */
export async function explainUnusable (dataDir: string, cause: unknown): Promise<MillraceError> {
  const remedy = 'set MILLRACE_DATA_DIR to a folder that this user may write to'
  const found = await findExisting(path.resolve(dataDir))
  const code = await probe(found)
  if (code === 'ENOTDIR') return unusable(`${found} is a file, not a folder: ${remedy}`)
  if (code === 'EROFS') return unusable(`${found} is on a read-only file system: mount it writable, or ${remedy}`)
  if (code === 'EACCES' || code === 'EPERM') {
    return unusable(`the user ${process.getuid?.() ?? ''} may not write to ${found}: give the folder to that user, or ${remedy}`)
  }
  const text = cause instanceof Error ? cause.message : String(cause)
  // The system makes no folders there, as in /proc, which has no room either.
  if (errorCode(cause) === 'ENOENT') return unusable(`${text}: ${remedy}`)
  const { bytes, files } = await readRoom(found)
  if (DISK_FULL.test(text) || bytes < ROOM_OF_START.bytes || files < ROOM_OF_START.files) {
    return full(`the disk of the data directory ${dataDir} is full (${describeRoom({ bytes, files })} are free): ${MAKE_ROOM}`, cause)
  }
  return await blameOwner(dataDir, cause) ?? unusable(`${text}: ${remedy}`)

  function unusable (why: string): MillraceError {
    return new MillraceError('MILLRACE_DATA_DIR_UNUSABLE', `cannot write to the data directory ${dataDir}: ${why}`, { cause })
  }
}

/**
 * Replaces the error of a start by one that says so when the disk was full or read-only, or something in the data
 * directory belongs to somebody else, as after a command of root.
 */
export async function explainFailedStart (dataDir: string, error: unknown): Promise<unknown> {
  const text = error instanceof Error ? error.message : String(error)
  if (DISK_FULL.test(text) || READ_ONLY.test(text)) return await explainUnusable(dataDir, error).catch(() => error)
  return NOT_ALLOWED.test(text) ? await blameOwner(dataDir, error) ?? error : error
}

/** The error that says that something in the data directory belongs to another user; undefined when nothing does. */
async function blameOwner (dataDir: string, cause: unknown): Promise<MillraceError | undefined> {
  const foreign = await findForeign(dataDir, LEVELS)
  if (foreign === undefined) return undefined
  const user = process.getuid?.() ?? ''
  return new MillraceError('MILLRACE_DATA_DIR_UNUSABLE', `cannot use the data directory ${dataDir}: the user ${user} may not ` +
    `read and write ${foreign.file}, which belongs to the user ${foreign.owner}: as an administrator, run ` +
    `"chown --recursive ${user} ${dataDir}"`, { cause })
}

/** Folders below the data directory whose content is looked at: below `nats`, `logs` and the like. */
const LEVELS = 2

/** The first file or folder that this user may not use, from the outside in. */
async function findForeign (folder: string, levels: number): Promise<{ file: string, owner: number } | undefined> {
  const below: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const file = path.join(folder, entry.name)
    const isFolder = entry.isDirectory()
    const allowed = await access(file, constants.R_OK | constants.W_OK | (isFolder ? constants.X_OK : 0))
      .then(() => true, (error: NodeJS.ErrnoException) => error.code !== 'EACCES')
    if (!allowed) return { file, owner: (await lstat(file)).uid }
    if (isFolder && levels > 0) below.push(file)
  }
  for (const each of below) {
    const found = await findForeign(each, levels - 1)
    if (found !== undefined) return found
  }
  return undefined
}

/**
 * Marks a data directory as not restored: before anything else is put there, and when the restore has failed. A start
 * would make a new installation there, with other keys.
 *
 * @param error  What the restore failed with; absent: it is under way.
 */
export async function markUnrestored (dataDir: string, mark: { folder: string, error?: string }): Promise<void> {
  await writeFile(path.join(dataDir, UNFINISHED_RESTORE), JSON.stringify(mark), { mode: 0o600, flush: true })
  await flushFolder(dataDir)
}

/** Removes the mark: the data directory is whole. */
export async function endRestore (dataDir: string): Promise<void> {
  await rm(path.join(dataDir, UNFINISHED_RESTORE), { force: true })
  await flushFolder(dataDir)
}

/** @throws {MillraceError} `MILLRACE_RESTORE_UNFINISHED` when a restore failed or was interrupted. */
export async function refuseUnfinishedRestore (dataDir: string): Promise<void> {
  const mark = await readFile(path.join(dataDir, UNFINISHED_RESTORE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (mark === undefined) return
  const { folder = '<folder>', error } = readMark(mark)
  const what = error === undefined ? 'holds only part of a backup: its restore was interrupted' : `was not restored: ${String(error)}`
  throw new MillraceError('MILLRACE_RESTORE_UNFINISHED', `the data directory ${dataDir} ${what}. Run "npx millrace restore ${String(folder)}" ` +
    'again, which starts over. For a new installation, with new keys, empty the data directory')
}

/** Free space for this user on the disk of a folder. */
export async function readRoom (folder: string): Promise<Room> {
  const { bavail, bsize, files, ffree } = await statfs(folder)
  return { bytes: bavail * bsize, files: files === 0 ? Infinity : ffree }
}

/** The folder itself, or the nearest one above that is there. */
async function findExisting (folder: string): Promise<string> {
  const isThere = await stat(folder).then(() => true, () => false)
  return isThere || path.dirname(folder) === folder ? folder : await findExisting(path.dirname(folder))
}

/** The code of the error with which writing to it would fail; undefined when writing is allowed. */
async function probe (found: string): Promise<string | undefined> {
  if (!(await stat(found)).isDirectory()) return 'ENOTDIR'
  return await access(found, constants.W_OK | constants.X_OK)
    .then(() => undefined, (error: NodeJS.ErrnoException) => error.code)
}

function full (why: string, cause?: unknown): MillraceError {
  return new MillraceError('MILLRACE_DATA_DIR_FULL', why, cause === undefined ? {} : { cause })
}

export function describeRoom ({ bytes, files }: Room): string {
  return `${(bytes / 1e6).toFixed(1)} MB${Number.isFinite(files) ? ` and ${files} files (inodes)` : ''}`
}

function readMark (mark: string): Record<string, unknown> {
  try {
    return fieldsOf(JSON.parse(mark))
  } catch {
    // Cut off by a power loss.
    return {}
  }
}
