import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress } from 'node:zlib'
import { errorCode, MillraceError } from '../../engines/errors.ts'

/** A file of a backup; its path is relative to the folder. */
export interface BackupFile {
  path: string
  bytes: number
  sha256: string
}

/** Called with the number of bytes read, for a progress bar. */
export type OnBytes = (bytes: number) => void

/** A step of a pipeline that passes chunks on, and calls back with each. */
export function tap (onChunk: (chunk: Buffer) => void) {
  return async function * (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      onChunk(chunk)
      yield chunk
    }
  }
}

/**
 * Writes one file of a backup, readable only by its owner, and flushes it to the disk.
 *
 * @param options.onBytes  Called with the bytes of the source.
 * @param options.isCompressed  By zstd.
 */
export async function writeBackupFile (
  folder: string, name: string, source: Readable, options: { onBytes?: OnBytes, isCompressed?: boolean } = {}
): Promise<BackupFile> {
  const { onBytes = () => {}, isCompressed = false } = options
  const target = path.join(folder, name)
  await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
  const hash = createHash('sha256')
  let bytes = 0
  const read = tap((chunk) => { onBytes(chunk.length) })
  const written = tap((chunk) => {
    bytes += chunk.length
    hash.update(chunk)
  })
  const out = createWriteStream(target, { mode: 0o600, flags: 'wx', flush: true })
  await pipeline(source, read, isCompressed ? createZstdCompress() : new PassThrough(), written, out)
  return { path: name, bytes, sha256: hash.digest('hex') }
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
    const hash = createHash('sha256')
    try {
      for await (const chunk of createReadStream(path.join(folder, file.path)) as AsyncIterable<Buffer>) {
        hash.update(chunk)
        onBytes(chunk.length)
      }
    } catch (cause) {
      if (errorCode(cause) === 'EACCES') throw unreadable(path.join(folder, file.path), cause)
      throw damaged(folder, file, `cannot be read (${errorCode(cause)})`, cause)
    }
    if (hash.digest('hex') !== file.sha256) throw damaged(folder, file, 'does not match its checksum')
  }
}

function damaged (folder: string, file: BackupFile, what: string, cause?: unknown): MillraceError {
  return new MillraceError('MILLRACE_BACKUP_DAMAGED', `the backup ${folder} is damaged: its file ${file.path} ${what}. Use another ` +
    'backup; backups that share the file with it (--base) have the same damage, copies on another disk do not', { cause })
}

/**
 * Looks for every file once more: a disk that was taken away, or somebody who cleans up, leaves a part of them.
 *
 * @throws {MillraceError} `MILLRACE_FOLDER_UNUSABLE` naming the first that is missing or has another size.
 */
export async function refuseLostFiles (folder: string, files: readonly BackupFile[]): Promise<void> {
  const lost = await findLostFile(folder, files)
  if (lost === undefined) return
  throw new MillraceError('MILLRACE_FOLDER_UNUSABLE', `${lost.path} was written to ${folder} but is now missing or has a ` +
    'different size: was the disk removed, or does something else remove files there?')
}

/** The first file that is missing or has another size. Reads none, so thousands of them take milliseconds. */
export async function findLostFile (folder: string, files: readonly BackupFile[]): Promise<BackupFile | undefined> {
  for (const file of files) {
    const bytes = await stat(path.join(folder, file.path)).then(({ size }) => size, () => -1)
    if (bytes !== file.bytes) return file
  }
  return undefined
}

/** A backup is readable by its owner alone, and may well be a good one. */
export function unreadable (file: string, cause: unknown): MillraceError {
  return new MillraceError('MILLRACE_BACKUP_UNREADABLE', `the user ${process.getuid?.() ?? ''} may not read ${file}: run the command as ` +
    'its owner, or change the owner of the whole folder to this user (chown --recursive)', { cause })
}
