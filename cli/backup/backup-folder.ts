import { link, mkdir, readFile, realpath, rename, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import { flushFolder } from '../../platform/durable-folder.ts'
import type { ColumnOfTable } from '../../schema/backup-statements.ts'
import { describeVersion } from '../../schema/version.ts'
import { type BackupFile, unreadable } from './backup-files.ts'
import type { BooksDay } from './books.ts'
import type { Definition, LeftOut } from './clickhouse-definitions.ts'

/** Contents of a backup. Written last: only a folder with a manifest is a complete backup. */
export interface BackupManifest {
  format: 1
  version: string
  /** Of that version. Absent where it was not known. */
  commit?: string
  /** Every event acknowledged before this time is in the backup. ISO 8601. */
  startedAt: string
  /** Time of the snapshot of both databases: no later event is in the backup. ISO 8601. */
  snapshotAt: string
  clickhouse: BackedUpSchema & {
    tables: Record<string, ClickHouseTable>
    /** Of everything in ClickHouse, also of what users made. */
    definitions: Definition[]
  }
  postgres: BackedUpSchema & { tables: Record<string, PostgresTable>, sequences: Sequence[] }
  deadLetters: number
  /** What users have in the databases and the backup does not, or only as a definition. */
  leftOut: LeftOut[]
  /** What a restore compares its events with. */
  books: BooksDay[]
  /** The earlier backup with which it shares files, and their bytes. Absent when it shares none. */
  base?: { folder: string, sharedBytes: number }
  files: BackupFile[]
}

/** State of a database: a restore makes these tables, before it brings them to its own version. */
export interface BackedUpSchema {
  version: string
  migrations: string[]
  /** SHA-256 of each, in hex. */
  checksums: Record<string, string>
}

export interface ClickHouseTable {
  database: string
  name: string
  rows: number
  parts: string[]
  columns: ColumnOfTable[]
}
export interface PostgresTable { rows: number, columns: string[] }

export interface Sequence {
  name: string
  /** null when it was never used. */
  last: string | null
}

/** Data of users that a backup does not have, in words for people. */
export function listLost ({ leftOut }: BackupManifest): string[] {
  return leftOut.filter(({ isLost }) => isLost).map(({ what }) => what)
}

const FILE = 'manifest.json'

/**
 * Completes a backup: flushes the folders of all its files to the disk, then writes the manifest under another name and
 * renames it, so that it is there as a whole or not at all.
 */
export async function writeManifest (folder: string, manifest: BackupManifest): Promise<void> {
  const folders = new Set([path.dirname(folder), folder])
  for (const file of manifest.files) {
    for (let each = path.dirname(file.path); each !== '.'; each = path.dirname(each)) folders.add(path.join(folder, each))
  }
  for (const each of folders) await flushFolder(each)
  await writeFile(path.join(folder, `${FILE}.new`), `${JSON.stringify(manifest, null, 1)}\n`, { mode: 0o600, flush: true })
  await rename(path.join(folder, `${FILE}.new`), path.join(folder, FILE))
  await flushFolder(folder)
}

/**
 * Reads the manifest of a backup.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_NOT_FOUND` when there is no such folder, `MILLRACE_BACKUP_INCOMPLETE` when
 * it has no complete backup that this version reads, `MILLRACE_BACKUP_UNREADABLE` when this user may not read it.
 */
export async function readManifest (folder: string): Promise<BackupManifest> {
  const text = await readFile(path.join(folder, FILE), 'utf8').catch(async (cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EACCES' || cause.code === 'EPERM') throw unreadable(folder, cause)
    if (cause.code === 'ENOENT' || cause.code === 'ENOTDIR') await refuseMissingFolder(folder, cause)
    throw incomplete(`${folder} holds no complete backup: it has no ${FILE}, which is written last. Use another backup`, cause)
  })
  const manifest = parseManifest(text)
  if (typeof manifest?.format === 'number' && manifest.format !== 1) {
    throw incomplete(`the backup in ${folder} was written by another version, ${describeVersion(manifest)}`)
  }
  if (manifest === undefined || !isWhole(manifest)) throw incomplete(`${path.join(folder, FILE)} is damaged: use another backup`)
  return manifest
}

const incomplete = (why: string, cause?: unknown): MillraceError => new MillraceError('MILLRACE_BACKUP_INCOMPLETE', why, { cause })

/** @returns undefined when the text is not that of an object. */
function parseManifest (text: string): BackupManifest | undefined {
  try {
    const manifest = JSON.parse(text) as BackupManifest | null
    return typeof manifest === 'object' ? manifest ?? undefined : undefined
  } catch {
    return undefined
  }
}

/** Whether it has all that a restore reads; also the credentials, which must be a file whose checksum is verified. */
function isWhole ({ files, leftOut, books, clickhouse, postgres }: Partial<BackupManifest>): boolean {
  const lists = [files, leftOut, books, clickhouse?.migrations, clickhouse?.definitions, postgres?.migrations]
  return lists.every(Array.isArray) &&
    [clickhouse, postgres].every((store) => typeof store?.tables === 'object' && typeof store.checksums === 'object') &&
    files?.some(({ path }) => path === 'credentials.json') === true
}

/** A name with a mistake, or a disk that is not mounted: another backup would not help. */
async function refuseMissingFolder (folder: string, cause: unknown): Promise<void> {
  const isFolder = await stat(folder).then((found) => found.isDirectory(), () => undefined)
  if (isFolder === true) return
  const why = isFolder === false
    ? `${folder} is a file, not the folder of a backup`
    : `folder ${folder} does not exist: is the name right, and the disk mounted?`
  throw new MillraceError('MILLRACE_BACKUP_NOT_FOUND', why, { cause })
}

/** An earlier backup, whose files a new one shares as hard links: parts of ClickHouse never change. */
export interface BaseBackup {
  folder: string
  files: ReadonlyMap<string, BackupFile>
}

/** A smaller file takes one block of the disk, and is copied: some small files of a part may change. */
const SMALL_BYTES = 4096

/** A disk that has no hard links, or another disk than that of the base. */
const CANNOT_LINK = new Set(['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'ENOENT', 'EACCES'])

/** @throws {MillraceError} `MILLRACE_BACKUP_INCOMPLETE` when the folder has no complete backup. */
export async function openBase (folder: string): Promise<BaseBackup> {
  const { files } = await readManifest(folder)
  return { folder, files: new Map(files.map((file) => [file.path, file])) }
}

/**
 * Whether the base has this very part, and not another one of the same name: ClickHouse writes checksums of all columns
 * into one file of each part.
 *
 * @param part  `clickhouse/<table>/<part>`.
 * @param sha256  Of its file of checksums.
 */
export function hasPart (base: BaseBackup | undefined, part: string, sha256: string): base is BaseBackup {
  return base?.files.get(path.join(part, CHECKSUMS))?.sha256 === sha256
}

export const CHECKSUMS = 'checksums.txt'

/**
 * Links a file of a part that the base has into a backup.
 *
 * @param bytes  Size of the file now.
 * @returns undefined when it must be copied.
 */
export async function linkFromBase (
  base: BaseBackup, folder: string, { name, bytes }: { name: string, bytes: number }
): Promise<BackupFile | undefined> {
  const known = base.files.get(name)
  if (known === undefined || known.bytes !== bytes || bytes < SMALL_BYTES) return undefined
  const source = path.join(base.folder, name)
  try {
    // What was damaged since is not carried on.
    if ((await stat(source)).size !== bytes) return undefined
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true, mode: 0o700 })
    await link(source, path.join(folder, name))
    return known
  } catch (error) {
    if (CANNOT_LINK.has(errorCode(error))) return undefined
    throw error
  }
}

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

const unusable = (why: string): MillraceError => new MillraceError('MILLRACE_FOLDER_UNUSABLE', why)
