import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, readFile, rename } from 'node:fs/promises'
import path from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { MillraceError } from '../../platform/errors.ts'
import { flushFolder } from '../../platform/durable-folder.ts'

/** A file of a backup, by its path in the folder. */
export interface BackupFile {
  path: string
  bytes: number
  sha256: string
}

/** Told of bytes that were read, for a progress bar. */
export type OnBytes = (bytes: number) => void

/**
 * Writes one file of a backup and flushes it to the disk; nobody but the owner may read it.
 *
 * @param transforms  What the bytes go through on the way to the file, such as compression.
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
 * Reads every file again.
 *
 * @throws {MillraceError} `MILLRACE_BACKUP_DAMAGED` naming the first file that is missing or not what was written.
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
      throw new MillraceError('MILLRACE_BACKUP_DAMAGED', `${file.path} of the backup cannot be read`, { cause })
    }
    if (tap.digest() !== file.sha256) {
      throw new MillraceError('MILLRACE_BACKUP_DAMAGED', `${file.path} of the backup is not what was written (checksum)`)
    }
  }
}

/** Passes bytes on, counts them and computes their checksum. */
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

/** What a backup holds. Written last: a folder with it is a complete backup, one without it is none. */
export interface BackupManifest {
  format: 1
  /** Version of Millrace that wrote it. */
  version: string
  /** Every event acknowledged until then is in it. ISO 8601. */
  startedAt: string
  /** When both databases were cut: of later events none is in it. */
  cutAt: string
  clickhouse: { version: string, migrations: string[], tables: Record<string, ClickHouseTable> }
  postgres: { version: string, migrations: string[], tables: Record<string, PostgresTable>, sequences: Sequence[] }
  deadLetters: number
  files: BackupFile[]
}

export interface ClickHouseTable {
  rows: number
  parts: string[]
  columns: ClickHouseColumn[]
}

/** A column as it was declared. */
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
  /** null: never used. */
  last: string | null
}

const FILE = 'manifest.json'

/**
 * Makes the folder a backup, as the last thing that is done for it: flushes the names of all its files to the disk, and
 * only then puts the manifest there, under its name at once and whole.
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

/** @throws {MillraceError} `MILLRACE_BACKUP_INCOMPLETE` when there is no complete backup that this version reads. */
export async function readManifest (folder: string): Promise<BackupManifest> {
  const text = await readFile(path.join(folder, FILE), 'utf8').catch((cause: unknown) => {
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

/** undefined for what no version ever wrote. */
function parseManifest (text: string): BackupManifest | undefined {
  try {
    const manifest = JSON.parse(text) as BackupManifest | null
    return Array.isArray(manifest?.files) && typeof manifest.clickhouse === 'object' && typeof manifest.postgres === 'object'
      ? manifest
      : undefined
  } catch {
    return undefined
  }
}
