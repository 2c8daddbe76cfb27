import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Logger } from '../json-log.ts'
import { listFolder, listTables } from '../engine/list-folder.ts'

const run = promisify(execFile)

/** Letter by which `lsattr` shows a file whose writes are synchronous. */
const SYNCHRONOUS = /^\S*S/

/** What Linux says of a file system in memory. */
const TMPFS = 0x01021994

/** Linux takes thousands of arguments; no stack has that many tables. */
const FOLDERS_A_CALL = 500

/**
 * Keeps the tables' logs of deduplication tokens on the disk.
 *
 * A token must be there before its part: a part without its token would be stored a second time when the insert is
 * repeated. (The other way round is repaired at the start, see `forget-lost-parts.ts`.) The engine of 26.7 writes the
 * token first and then gives the part its name, which is the right order, but flushes the part only. So the kernel is
 * told to write each of these logs through: `chattr +S`, on ext4, XFS and others of Linux, one flush a table and month.
 *
 * Where that is not possible (another system or file system, no `chattr`), the logs are flushed after each insert and
 * before its answer. A power failure between the two may then count that one insert twice. In memory there is nothing
 * to flush, as nothing of it outlives a power failure.
 */
export class TokenFlusher {
  /** Whether the kernel writes the logs through. */
  readonly isWrittenThrough: boolean
  readonly #isFlushed: boolean
  readonly #engineDir: string
  readonly #logger: Logger
  /** Folders of tables that were checked, and folders of logs among them. */
  readonly #known = new Set<string>()
  readonly #covered = new Set<string>()
  /** When a log was changed that is flushed, by path; epoch milliseconds. */
  readonly #flushed = new Map<string, number>()

  private constructor (engineDir: string, isWrittenThrough: boolean, logger: Logger) {
    this.#engineDir = engineDir
    this.isWrittenThrough = isWrittenThrough
    this.#isFlushed = !isWrittenThrough && statfsSync(engineDir).type !== TMPFS
    this.#logger = logger
  }

  /** @param engineDir  Data directory of the engine, whose tables are as the recovery left them. */
  static async open (engineDir: string, logger: Logger): Promise<TokenFlusher> {
    const isWrittenThrough = await canWriteThrough(path.join(engineDir, 'server-write-through'))
    const flusher = new TokenFlusher(engineDir, isWrittenThrough, logger)
    if (flusher.#isFlushed) {
      logger.warn({ folder: engineDir },
        'this file system does not support chattr +S: an insert at the moment of a power failure may be counted twice')
    }
    await flusher.cover()
    return flusher
  }

  /**
   * To be called after a statement that may have made a table, before it is answered.
   *
   * @param options.again  Check known tables too: one of them may deduplicate from now on.
   */
  async cover ({ again = false } = {}): Promise<void> {
    if (!this.isWrittenThrough && !this.#isFlushed) return
    if (again) this.#known.clear()
    const tables = listTables(this.#engineDir).filter((table) => !this.#known.has(table))
    for (const table of tables) this.#known.add(table)
    const found = tables.map((table) => path.join(table, 'deduplication_logs'))
      .filter((folder) => !this.#covered.has(folder) && existsSync(folder))
    if (this.isWrittenThrough) await this.#writeThrough(found)
    for (const folder of found) this.#covered.add(folder)
  }

  async #writeThrough (folders: readonly string[]): Promise<void> {
    for (let from = 0; from < folders.length; from += FOLDERS_A_CALL) {
      const some = folders.slice(from, from + FOLDERS_A_CALL)
      try {
        await run('chattr', ['-R', '+S', ...some])
      } catch (error) {
        // It does the others all the same. A table may be dropped meanwhile; anything else should be known.
        if (some.every((folder) => existsSync(folder))) this.#logger.error({ err: error }, 'could not set chattr +S; a power failure may duplicate an insert')
      }
    }
  }

  /** To be called after an insert, before it is answered. Nothing to do where the kernel writes through. */
  async flush (): Promise<void> {
    if (!this.#isFlushed) return
    await Promise.all([...this.#covered].flatMap((folder) => listFolder(folder).map(async (name) => {
      const file = path.join(folder, name)
      const mtimeMs = statSync(file, { throwIfNoEntry: false })?.mtimeMs
      if (mtimeMs === undefined || this.#flushed.get(file) === mtimeMs) return
      // Node 22 has no `await using`.
      const handle = await open(file, 'r')
      await handle.datasync().finally(async () => await handle.close())
      this.#flushed.set(file, mtimeMs)
    })))
  }
}

/** Tries it with a folder and a file that is made in it afterwards, as the engine makes its logs. */
async function canWriteThrough (folder: string): Promise<boolean> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  try {
    await run('chattr', ['+S', folder])
    writeFileSync(path.join(folder, 'log'), '')
    const { stdout } = await run('lsattr', [path.join(folder, 'log')])
    return SYNCHRONOUS.test(stdout)
  } catch {
    // No chattr, or a file system that does not know the flag.
    return false
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
