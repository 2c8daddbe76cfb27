/** Keeps what defines tables (`metadata`, mutations) whole over a statement that a full disk cuts short. */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, statfsSync, statSync } from 'node:fs'
import path from 'node:path'
import type { Logger } from '../json-log.ts'
import type { SqlToken } from '../statement/sql-lexer.ts'
import { errorCode, QueryError } from '../http/query-errors.ts'
import { listFolder, listTables } from './list-folder.ts'

/** Statements that may write a definition. Those that only remove or rename need no room. */
const WRITES = new Set(['ALTER', 'ATTACH', 'CREATE', 'DELETE', 'REPLACE', 'RESTORE', 'UNDROP', 'UPDATE'])

/** What an ALTER may remove, which makes room. */
const REMOVABLE = new Set(['DETACHED', 'PART', 'PARTITION'])

/** A definition has some kilobytes; the rest is for what else is written in the same moment. */
const ROOM_BYTES = 8_388_608

/** A disk that is full takes the blocks that still fit: what was cut off there may end in a whole line. */
const BLOCK_BYTES = 512

/** A mutation as the engine writes it: the line breaks of its commands are escaped. */
const MUTATION = /^format version: \d+\n(?:[^\n]+\n)*commands: [^\n]*\n$/

/** Database of the server itself, whose views are made again at each start. */
const OWN_DATABASE = 'chdb_server'

/** A statement that may change definitions of its current database, and of those that it names. */
export interface DefiningStatement {
  tokens: readonly SqlToken[]
  database: string
}

/**
 * Definitions of tables while a statement changes them.
 *
 * The engine writes a definition to another name, flushes it and gives it the name of the old one, but does not notice
 * a write that fails (see `failed-writes.ts`): on a full disk an ALTER put a definition that was empty or cut off in
 * the place of the old one. The next start would remove the table (empty), or fail. So statements that need room are
 * refused where there is none, and for a disk that fills in this very moment the old definitions stay as hard links,
 * which need no room, until the statement has ended and all is written.
 */
export class Definitions {
  readonly #engineDir: string
  #running = 0

  constructor (engineDir: string) {
    this.#engineDir = engineDir
  }

  /**
   * Runs a statement that may change definitions; resolves when `work` has, which is to end with `FailedWrites.check`.
   *
   * @throws {QueryError} 243 when the disk has no room for it.
   */
  async during<T> ({ tokens, database }: DefiningStatement, work: () => Promise<T>): Promise<T> {
    if (!needsRoom(tokens)) return await work()
    const { bavail, bsize } = statfsSync(this.#engineDir)
    if (bavail * bsize < ROOM_BYTES) {
      throw new QueryError(243, `Cannot write the definition of a table: ${(bavail * bsize / 1e6).toFixed(1)} MB are free on ` +
        `the disk of ClickHouse, but ${(ROOM_BYTES / 1e6).toFixed(1)} MB are needed. Nothing was changed; make room and try again`)
    }
    keep(this.#engineDir, { tokens, database })
    this.#running++
    try {
      return await work()
    } finally {
      if (--this.#running === 0) rmSync(keptIn(this.#engineDir), { recursive: true, force: true })
    }
  }
}

/**
 * To be called before the engine opens its folder: takes back what statements could not write whole. They were not
 * answered.
 */
export function repairDefinitions (engineDir: string, logger: Logger): void {
  const kept = list(keptIn(engineDir))
  const databases = new Set(['.', ...listFolder(keptIn(engineDir))])
  for (const [name, file] of list(path.join(engineDir, 'metadata'))) {
    const before = kept.get(name)
    if (before !== undefined && statSync(before).ino === statSync(file).ino) continue
    const database = path.dirname(name)
    const mayBeCut = database === OWN_DATABASE || (kept.size > 0 && databases.has(database))
    if (!mayBeCut || !isCutShort(file)) continue
    if (before === undefined) rmSync(file)
    else renameSync(before, file)
    logger.warn({ definition: name }, before === undefined
      ? 'removed the definition of a new table or view that did not fit on the disk; its statement had not been answered'
      : 'rolled back a change of a table that did not fit on the disk; its statement had not been answered')
  }
  rmSync(keptIn(engineDir), { recursive: true, force: true })
  removeCutMutations(engineDir, logger)
}

function needsRoom (tokens: readonly SqlToken[]): boolean {
  if (!WRITES.has(tokens[0]!.text)) return false
  return !tokens.some(({ text }, i) => text === 'DROP' && REMOVABLE.has(tokens[i + 1]?.text ?? ''))
}

/** Links each whole definition, instead of the one that was kept for another statement that still runs. */
function keep (engineDir: string, statement: DefiningStatement): void {
  const folder = keptIn(engineDir)
  const kept = list(folder)
  const metadata = path.join(engineDir, 'metadata')
  const mayChange = databasesOf(statement)
  // Also of one without tables: the next start looks at the definitions of those that have a folder here.
  const databases = listFolder(metadata).map((name) => path.basename(name, '.sql'))
  for (const name of databases.filter(mayChange)) mkdirSync(path.join(folder, name), { recursive: true })
  for (const [name, file] of list(metadata)) {
    if (!mayChange(path.dirname(name))) continue
    try {
      const before = kept.get(name)
      if (before !== undefined && (statSync(before).ino === statSync(file).ino || isCutShort(file))) continue
      rmSync(path.join(folder, name), { force: true })
      linkSync(file, path.join(folder, name))
    } catch (error) {
      // Another statement has dropped or renamed it since it was listed.
      if (errorCode(error) !== 'ENOENT') throw error
    }
  }
}

/** Tells of the folder of a database whether a statement may change it. `.` holds the databases themselves. */
function databasesOf ({ tokens, database }: DefiningStatement): (folder: string) => boolean {
  if (tokens[0]!.text === 'RESTORE' && tokens.some(({ text }) => text === 'ALL')) return () => true
  const names = [database, ...tokens.map(({ text }) => text.replace(/^["`]|["`]$/g, ''))]
  const named = new Set(names.map((name) => name.toUpperCase()))
  return (folder) => folder === '.' || named.has(decodeURIComponent(folder).toUpperCase())
}

function keptIn (engineDir: string): string {
  return path.join(engineDir, 'server-definitions')
}

/** Definitions of databases and of what is in them: paths by `database.sql` and `database/table.sql`. */
function list (folder: string): Map<string, string> {
  const names = listFolder(folder).flatMap((name) =>
    name.endsWith('.sql') ? [name] : listFolder(path.join(folder, name)).map((inside) => path.join(name, inside)))
  return new Map(names.filter((name) => name.endsWith('.sql')).map((name) => [name, path.join(folder, name)]))
}

function isCutShort (file: string): boolean {
  const bytes = readFileSync(file)
  return bytes.length % BLOCK_BYTES === 0 || bytes.at(-1) !== 0x0a
}

/** The table of a mutation that cannot be read would not load. */
function removeCutMutations (engineDir: string, logger: Logger): void {
  const files = listTables(engineDir).flatMap((table) => listFolder(table).map((name) => path.join(table, name)))
  for (const file of files) {
    if (!/\/mutation_\d+\.txt$/.test(file) || MUTATION.test(readFileSync(file, 'latin1'))) continue
    rmSync(file)
    logger.warn({ file }, 'removed a mutation that the disk had no room for; its statement was not answered')
  }
}
