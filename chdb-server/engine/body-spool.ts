/** Files between HTTP and the engine: bodies of inserts, long results, and pipes for rows. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync, closeSync, constants, lstatSync, mkdirSync, openSync, readdirSync, rmSync, statfsSync, writeFileSync
} from 'node:fs'
import { Socket } from 'node:net'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { errorCode, QueryError } from '../http/query-errors.ts'
import type { InsertRows } from '../http/read-query-body.ts'
import { keepFreeBytes } from './profiles.ts'

/** Bodies in memory are limited to a quarter of what is free, so that they can never push the machine into trouble. */
const SHARE_OF_FREE = 0.25

/**
 * Where bodies of inserts wait for the engine, and the pipes through which it answers: bodies of a known size in shared
 * memory, which costs less than a file of a disk, everything else in the data directory. No file is flushed, and one
 * that is removed within seconds is never written to the disk.
 *
 * The engine holds a lock on its folder, so two processes never share a spool.
 */
export class Spool {
  readonly #dataDir: string
  readonly #disk: string
  readonly #memory: string
  #made = 0

  /** Empties what a killed process left. */
  constructor (dataDir: string) {
    this.#dataDir = dataDir;
    [this.#disk, this.#memory] = makeSpoolFolders(dataDir)
    for (const folder of [this.#disk, this.#memory]) {
      for (const name of readdirSync(folder)) rmSync(path.join(folder, name))
    }
  }

  /**
   * @param bytes  About so many are to be written; 0: unknown.
   * @throws {QueryError} 243 on a disk on which only the room is left that is kept free.
   */
  newPath (bytes: number): string {
    const name = `body-${++this.#made}`
    const memory = statfsSync(this.#memory)
    if (bytes > 0 && bytes < memory.bavail * memory.bsize * SHARE_OF_FREE) return path.join(this.#memory, name)
    const { bavail, blocks, bsize } = statfsSync(this.#disk)
    if (bavail * bsize < keepFreeBytes(blocks * bsize)) throw new QueryError(243, 'Cannot spool: the disk is full')
    return path.join(this.#disk, name)
  }

  /** Paths of named pipes, ready to use. */
  makePipes (count: number): string[] {
    const paths = Array.from({ length: count }, (_, i) => path.join(this.#memory, `pipe-${i + 1}`))
    execFileSync('mkfifo', ['-m', '600', ...paths])
    return paths
  }

  close (): void {
    removeSpoolFolders(this.#dataDir)
  }
}

/**
 * Makes the folders of a data directory's spool, on the disk and in shared memory; one and the same without such, or
 * where it is not ours alone. A confined process of the engine cannot make them: they are made before.
 */
export function makeSpoolFolders (dataDir: string): [disk: string, memory: string] {
  const [disk, memory] = spoolFolders(dataDir)
  mkdirSync(disk, { recursive: true, mode: 0o700 })
  try {
    mkdirSync(memory, { recursive: true, mode: 0o700 })
    // Whoever made a folder of that name before could read and replace what is in it.
    const { mode, uid } = lstatSync(memory)
    if (mode === (constants.S_IFDIR | 0o700) && uid === process.getuid?.()) return [disk, memory]
  } catch {
    // Not Linux, or a container without it.
  }
  return [disk, disk]
}

/** Removes them, or what is in them where this process may not. */
export function removeSpoolFolders (dataDir: string): void {
  for (const folder of spoolFolders(dataDir)) {
    try {
      rmSync(folder, { recursive: true, force: true })
    } catch {
      // The folder itself is for the process that made it.
    }
  }
}

export function spoolFolders (dataDir: string): [disk: string, memory: string] {
  const name = createHash('sha256').update(path.resolve(dataDir)).digest('hex').slice(0, 16)
  return [path.join(dataDir, 'clickhouse-spool'), `/dev/shm/chdb-server-${name}`]
}

/**
 * Writes a body to a file as it comes, unread. A body whose sender goes away is removed: half an insert is never run.
 *
 * @throws {QueryError} 210 when the body ends early, 243 or an ENOSPC error when there is no room for it.
 */
export async function spoolBody (spool: Spool, { head, stream, expectedBytes }: InsertRows) {
  const file = spool.newPath(expectedBytes)
  const remove = (): void => { rmSync(file, { force: true }) }
  try {
    // A plain copy, cheaper done at once than handed to a thread.
    writeFileSync(file, head, { mode: 0o600, flag: 'wx' })
    for await (const chunk of stream) appendFileSync(file, chunk)
    return { path: file, remove }
  } catch (error) {
    remove()
    if (errorCode(error) !== 'ECONNRESET') throw error
    throw new QueryError(210, 'The client closed the connection before the body was complete; nothing was stored')
  }
}

/**
 * A named pipe through which the engine hands out the rows of one query at a time.
 *
 * Why a pipe: the engine writes a result as one document in any of its formats only to a file (`INTO OUTFILE`); its
 * streaming call repeats header and footer with each block. Through a pipe that "file" takes no room, and the engine
 * waits when the client is slow.
 */
export class ResultPipe {
  readonly path: string
  #keeper: number | undefined

  constructor (path: string) {
    this.path = path
  }

  /** Opens the reading end. The stream ends after `finish`, when the last byte was read. */
  open (): Readable {
    // Without a writer a reader sees the end at once; this end stands in until the engine has opened its own, and for
    // queries that fail before they open it.
    this.#keeper = openSync(this.path, constants.O_RDWR | constants.O_NONBLOCK)
    const fd = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK)
    return new Socket({ fd, readable: true, writable: false })
  }

  /** To be called when the engine has ended the query, however it ended. */
  finish (): void {
    if (this.#keeper !== undefined) closeSync(this.#keeper)
    this.#keeper = undefined
  }
}
