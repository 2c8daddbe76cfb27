/** Files between HTTP and the engine: bodies of inserts, long results, and pipes for rows. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { accessSync, constants, copyFileSync, mkdirSync, readdirSync, rmdirSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import path from 'node:path'
import { errorCode, QueryError } from '../query-errors.ts'
import type { InsertRows } from '../request/read-query-body.ts'

/** Where bodies of inserts wait for the engine, and the pipes through which it answers. */
export interface Spool {
  /** A path for a body of about this many bytes (0: unknown), in memory while there is room. */
  bodyPath: (expectedBytes: number) => string
  /** A path for a body whose first place had no room. */
  diskPath: () => string
  isInMemory: (file: string) => boolean
  /** Paths of named pipes, ready to use. */
  makePipes: (count: number) => string[]
  close: () => void
}

export interface SpooledBody {
  path: string
  bytes: number
  remove: () => void
}

const SHARED_MEMORY = '/dev/shm'
/** Bodies in memory are limited to a quarter of what is free, so that they can never push the machine into trouble. */
const SHARE_OF_FREE = 0.25

/**
 * Opens the spool of a data directory, and empties what a killed process left there.
 *
 * Bodies go to shared memory, which costs one copy and no disk, and to the data directory when that is small (as in
 * many containers) or full. The engine holds a lock on its folder, so two processes never share a spool.
 */
export function openSpool (dataDir: string): Spool {
  const { disk, memory } = spoolFolders(dataDir)
  makeSpoolFolders(dataDir)
  for (const folder of new Set([disk, memory])) empty(folder)
  let made = 0
  const free = cacheForMs(1000, () => {
    const { bavail, bsize } = statfsSync(memory)
    return bavail * bsize
  })

  return {
    bodyPath (expectedBytes) {
      const folder = memory === disk || expectedBytes > free() * SHARE_OF_FREE ? disk : memory
      return path.join(folder, `body-${++made}`)
    },
    diskPath: () => path.join(disk, `body-${++made}`),
    isInMemory: (file) => memory !== disk && file.startsWith(memory),
    makePipes (count) {
      const paths = Array.from({ length: count }, (_, i) => path.join(memory, `pipe-${i + 1}`))
      execFileSync('mkfifo', ['-m', '600', ...paths])
      return paths
    },
    close () {
      for (const folder of new Set([disk, memory])) empty(folder)
      removeSpoolFolders(dataDir)
    }
  }
}

/** Makes the folders of a data directory's spool. A confined process of the engine cannot: they are made before. */
export function makeSpoolFolders (dataDir: string): string[] {
  const folders = [...new Set(Object.values(spoolFolders(dataDir)))]
  for (const folder of folders) mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folders
}

/** Removes them when they are empty and this process may. */
export function removeSpoolFolders (dataDir: string): void {
  for (const folder of Object.values(spoolFolders(dataDir))) {
    try {
      rmdirSync(folder)
    } catch {
      // Somebody uses them, or it is for the process that made them.
    }
  }
}

/** The folders of a data directory's spool; one and the same where there is no shared memory. */
export function spoolFolders (dataDir: string): { disk: string, memory: string } {
  const disk = path.join(dataDir, 'clickhouse-spool')
  const memory = path.join(SHARED_MEMORY, `chdb-server-${hash(path.resolve(dataDir))}`)
  return { disk, memory: hasSharedMemory() ? memory : disk }
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
    if (errorCode(error) === 'ECONNRESET') {
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

  async append (chunk: Uint8Array): Promise<void> {
    try {
      await this.#write(chunk)
    } catch (error) {
      if (errorCode(error) !== 'ENOSPC' || !this.#spool.isInMemory(this.path)) throw error
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
  async #write (chunk: Uint8Array): Promise<void> {
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

function empty (folder: string): void {
  for (const name of readdirSync(folder)) rmSync(path.join(folder, name), { recursive: true, force: true })
}

function hasSharedMemory (): boolean {
  try {
    accessSync(SHARED_MEMORY, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

function hash (text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function cacheForMs (lifetimeMs: number, read: () => number): () => number {
  let value = 0
  let readAt = -Infinity
  return () => {
    const now = performance.now()
    if (now - readAt > lifetimeMs) {
      value = read()
      readAt = now
    }
    return value
  }
}
