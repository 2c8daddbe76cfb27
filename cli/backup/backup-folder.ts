import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises'
import path from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { MillraceError } from '../../platform/errors.ts'
import type { BooksDay } from './books.ts'
import { flushFolder } from '../../platform/durable-folder.ts'

/** A file of a backup; its path is relative to the folder. */
export interface BackupFile {
  path: string
  bytes: number
  sha256: string
}

/** Called with the number of bytes read, for a progress bar. */
export type OnBytes = (bytes: number) => void

/** Contents of a backup. Written last: only a folder with a manifest is a complete backup. */
export interface BackupManifest {
  format: 1
  /** Version of Millrace that wrote it. */
  version: string
  /** Every event acknowledged before this time is in the backup. ISO 8601. */
  startedAt: string
  /** Time of the snapshot of both databases: no later event is in the backup. ISO 8601. */
  snapshotAt: string
  clickhouse: BackedUpSchema & { tables: Record<string, ClickHouseTable> }
  postgres: BackedUpSchema & { tables: Record<string, PostgresTable>, sequences: Sequence[] }
  deadLetters: number
  /** What a restore compares its events with. Absent in backups of earlier versions. */
  books?: BooksDay[]
  /** The earlier backup with which it shares files, and their bytes. Absent when it shares none. */
  base?: { folder: string, sharedBytes: number }
  files: BackupFile[]
}

/** State of a database: a restore makes these tables, before it brings them to its own version. */
export interface BackedUpSchema {
  /** Of the server. */
  version: string
  /** Names of the applied migrations, in order. */
  migrations: string[]
  /** SHA-256 of each, in hex. Absent in backups of earlier versions. */
  checksums?: Record<string, string>
}

export interface ClickHouseTable {
  rows: number
  parts: string[]
  columns: ClickHouseColumn[]
}

/** The declaration of a column. */
export interface ClickHouseColumn {
  name: string
  type: string
  /** `DEFAULT` and the like, with its expression; empty without one. */
  kind: string
  expression: string
  /** Absent in backups of earlier versions. */
  comment?: string
  /** `CODEC(...)`; empty for the default. Absent in backups of earlier versions. */
  codec?: string
}

export interface PostgresTable {
  columns: string[]
  rows: number
}

export interface Sequence {
  name: string
  /** null when it was never used. */
  last: string | null
}

const FILE = 'manifest.json'

/**
 * Writes one file of a backup, readable only by its owner, and flushes it to the disk.
 *
 * @param options.transforms  Applied to the bytes on the way to the file, such as compression.
 */
export async function writeBackupFile (
  folder: string, name: string, source: Readable, options: { transforms?: Transform[], onBytes?: OnBytes } = {}
): Promise<BackupFile> {
  const { transforms = [], onBytes } = options
  const target = path.join(folder, name)
  await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
  const tap = new ByteTap()
  const out = createWriteStream(target, { mode: 0o600, flags: 'wx', flush: true })
  await pipeline([source, new ByteTap(onBytes), ...transforms, tap, out])
  return { path: name, bytes: tap.bytes, sha256: tap.digest() }
}

/**
 * Verifies the checksum of every file.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_DAMAGED` naming the first file that is missing or differs.
 */
export async function verifyBackupFiles (
  folder: string, files: readonly BackupFile[], onBytes: OnBytes
): Promise<void> {
  for (const file of files) {
    const tap = new ByteTap(onBytes)
    try {
      await pipeline(createReadStream(path.join(folder, file.path)), tap, async (chunks) => {
        for await (const chunk of chunks) void chunk
      })
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EACCES') throw unreadable(path.join(folder, file.path), cause)
      throw new MillraceError('MILLRACE_BACKUP_DAMAGED', `${file.path} of the backup cannot be read`, { cause })
    }
    if (tap.digest() !== file.sha256) {
      throw new MillraceError('MILLRACE_BACKUP_DAMAGED', `${file.path} of the backup is not what was written (checksum)`)
    }
  }
}

/** Passes bytes on, and computes their number and checksum. */
class ByteTap extends Transform {
  bytes = 0
  readonly #hash: Hash = createHash('sha256')
  readonly #onBytes: OnBytes

  constructor (onBytes: OnBytes = () => {}) {
    super()
    this.#onBytes = onBytes
  }

  override _transform (chunk: Buffer, _encoding: string, done: (error: null, chunk: Buffer) => void): void {
    this.bytes += chunk.length
    this.#hash.update(chunk)
    this.#onBytes(chunk.length)
    done(null, chunk)
  }

  digest (): string {
    return this.#hash.digest('hex')
  }
}

/**
 * Looks for every file once more: a disk that was taken away, or somebody who cleans up, leaves a part of them.
 *
 * @throws {MillraceError} `MILLRACE_FOLDER_UNUSABLE` naming the first that is missing or has another size.
 */
export async function refuseLostFiles (folder: string, files: readonly BackupFile[]): Promise<void> {
  for (const file of files) {
    const bytes = await stat(path.join(folder, file.path)).then(({ size }) => size, () => -1)
    if (bytes === file.bytes) continue
    throw new MillraceError('MILLRACE_FOLDER_UNUSABLE', `${file.path} was written to ${folder}, and is not there any more as it was: ` +
      'was its disk taken away, or does something else remove files there?')
  }
}

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
  const file = await open(path.join(folder, `${FILE}.new`), 'w', 0o600)
  try {
    await file.writeFile(`${JSON.stringify(manifest, null, 1)}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(path.join(folder, `${FILE}.new`), path.join(folder, FILE))
  await flushFolder(folder)
}

/**
 * Reads the manifest of a backup.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_INCOMPLETE` when the folder has no complete backup that this version reads,
 * `MILLRACE_BACKUP_UNREADABLE` when this user may not read it.
 */
export async function readManifest (folder: string): Promise<BackupManifest> {
  const text = await readFile(path.join(folder, FILE), 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EACCES' || cause.code === 'EPERM') throw unreadable(folder, cause)
    const why = `${folder} holds no complete backup: it has no ${FILE}, which is written last. Use another backup`
    throw new MillraceError('MILLRACE_BACKUP_INCOMPLETE', why, { cause })
  })
  const manifest = parseManifest(text)
  if (manifest === undefined) {
    const why = `${path.join(folder, FILE)} is damaged: use another backup`
    throw new MillraceError('MILLRACE_BACKUP_INCOMPLETE', why)
  }
  if (manifest.format !== 1) {
    const why = `the backup in ${folder} was written by another version, ${manifest.version}`
    throw new MillraceError('MILLRACE_BACKUP_INCOMPLETE', why)
  }
  return manifest
}

/** A backup is readable by its owner alone, and may well be a good one. */
function unreadable (file: string, cause: unknown): MillraceError {
  return new MillraceError('MILLRACE_BACKUP_UNREADABLE', `the user ${process.getuid?.() ?? ''} may not read ${file}: run the command as ` +
    'the user to whom it belongs, or give the whole folder to this one (chown --recursive)', { cause })
}

/** @returns undefined when the text is not a manifest of any version. */
function parseManifest (text: string): BackupManifest | undefined {
  try {
    const manifest = JSON.parse(text) as BackupManifest | null
    const isWhole = Array.isArray(manifest?.files) && [manifest.clickhouse, manifest.postgres].every((database) =>
      Array.isArray(database?.migrations) && typeof database.tables === 'object')
    // A restore copies it, so it must be one of those whose checksums are verified.
    return isWhole && manifest.files.some(({ path }) => path === 'credentials.json') ? manifest : undefined
  } catch {
    return undefined
  }
}
