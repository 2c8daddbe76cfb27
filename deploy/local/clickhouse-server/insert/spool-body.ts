import { copyFileSync, rmSync, writeSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { QueryError } from '../errors.ts'
import { type InsertRows } from '../request/read-body.ts'
import { type Spool } from '../engine/spool.ts'

export interface SpooledBody {
  path: string
  bytes: number
  remove: () => void
}

/**
 * Writes a body to a file as it comes, unread.
 *
 * A body whose sender goes away is removed: half an insert is never run. A body for which shared memory has no room
 * moves to the data directory.
 *
 * @throws {QueryError} 210 when the body ends early; an ENOSPC error when neither memory nor disk has room.
 */
export async function spoolBody (spool: Spool, rows: InsertRows): Promise<SpooledBody> {
  const file = await SpoolFile.create(spool, rows.expectedBytes)
  try {
    if (rows.head.length > 0) await file.append(rows.head)
    for await (const chunk of rows.stream as AsyncIterable<Buffer>) await file.append(chunk)
    await file.finish()
    return { path: file.path, bytes: file.bytes, remove: () => rmSync(file.path, { force: true }) }
  } catch (error) {
    await file.abandon()
    if ((error as NodeJS.ErrnoException).code === 'ECONNRESET') {
      throw new QueryError(210, 'The client closed the connection before the body was complete; nothing was stored')
    }
    throw error
  }
}

/** One file of the spool while it grows. */
export class SpoolFile {
  path: string
  bytes = 0
  #spool: Spool
  #handle: FileHandle

  private constructor (spool: Spool, path: string, handle: FileHandle) {
    this.#spool = spool
    this.path = path
    this.#handle = handle
  }

  static async create (spool: Spool, expectedBytes: number): Promise<SpoolFile> {
    const path = spool.bodyPath(expectedBytes)
    return new SpoolFile(spool, path, await open(path, 'wx', 0o600))
  }

  async append (chunk: Buffer): Promise<void> {
    try {
      await this.#write(chunk)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC' || !this.#spool.isInMemory(this.path)) throw error
      await this.#moveToDisk()
      await this.#write(chunk)
    }
    this.bytes += chunk.length
  }

  async finish (): Promise<void> {
    await this.#handle.close()
  }

  async abandon (): Promise<void> {
    await this.#handle.close().catch(() => {})
    rmSync(this.path, { force: true })
  }

  /** In memory a write is a plain copy, cheaper done at once than handed to a thread. */
  async #write (chunk: Buffer): Promise<void> {
    for (let done = 0; done < chunk.length;) {
      const at = this.bytes + done
      if (this.#spool.isInMemory(this.path)) done += writeSync(this.#handle.fd, chunk, done, chunk.length - done, at)
      else done += (await this.#handle.write(chunk, done, chunk.length - done, at)).bytesWritten
    }
  }

  async #moveToDisk (): Promise<void> {
    const from = this.path
    await this.#handle.close()
    this.path = this.#spool.diskPath()
    try {
      copyFileSync(from, this.path)
    } finally {
      rmSync(from, { force: true })
    }
    this.#handle = await open(this.path, 'r+')
  }
}
