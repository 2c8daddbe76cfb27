import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { Transform, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { MillraceError } from '../errors.ts'

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
