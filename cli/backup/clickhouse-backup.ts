import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { cp, readdir, readFile, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../engines/errors.ts'
import {
  addColumn, attachPart, type ColumnOfTable, COUNT_ROWS, describeMigrations, freezeTable, LIST_COLUMNS, LIST_MIGRATIONS,
  type ObjectRow, READ_VERSION, setMerges
} from '../../schema/backup-statements.ts'
import { type BackupFile, type OnBytes, writeBackupFile } from './backup-files.ts'
import { type BackupManifest, type BaseBackup, CHECKSUMS, type ClickHouseTable, hasPart, linkFromBase } from './backup-folder.ts'
import { type LeftOut, listObjects, quoteTable, readDefinitions, restoreDefinitions } from './clickhouse-definitions.ts'

export interface CopiedParts {
  files: BackupFile[]
  /** Bytes of files that are links to the base. */
  sharedBytes: number
}

interface FrozenPart {
  /** `clickhouse/<table>/<part>` */
  name: string
  folder: string
  files: { name: string, bytes: number }[]
  /** Of its file of checksums. */
  sha256: string
}

type TableName = Pick<ObjectRow, 'database' | 'name'>

/** Prefix of the names of snapshots by backups; an operator may make others. */
const FROZEN_BY_BACKUP = 'backup_'

/**
 * Freezes all tables, one after the other: a snapshot of their parts is hard links, which cost no space and never
 * change. No insert may run meanwhile (see quiesce.ts).
 *
 * @param dataDir  Data folder of ClickHouse, on this machine.
 * @param id       Unique to this backup; letters, digits and `_`, which ClickHouse does not escape.
 */
export async function freezeTables (clickhouse: ClickHouse, dataDir: string, id: string) {
  const name = `${FROZEN_BY_BACKUP}${id}`
  const shadow = path.join(dataDir, 'shadow', name)
  const { definitions, tables, leftOut } = await readDefinitions(clickhouse, dataDir)
  // Somebody may drop or replace a table of their own at any moment; the others are backed up all the same.
  const unlessReplaced = async <T>(table: ObjectRow, work: () => Promise<T>): Promise<T | undefined> =>
    await work().catch((error: unknown) => {
      if (table.isOwn) throw error
      leftOut.push({ what: `${quoteTable(table)}: dropped or replaced during the backup`, isLost: true })
      return undefined
    })
  const parts: FrozenPart[] = []
  const described: Record<string, ClickHouseTable> = {}
  for (const table of tables) {
    await unlessReplaced(table, async () => await clickhouse.command({ query: freezeTable(quoteTable(table), name) }))
  }
  for (const table of tables) {
    const found = await unlessReplaced(table, async () => await describeTable(clickhouse, shadow, table))
    if (found === undefined) continue
    for (const part of found.frozen) parts.push(part)
    described[table.key] = found.about
  }
  const about: BackupManifest['clickhouse'] = {
    version: (await queryRows<{ version: string }>(clickhouse, READ_VERSION))[0]?.version ?? '',
    ...describeMigrations(await queryRows(clickhouse, LIST_MIGRATIONS)),
    tables: described,
    definitions
  }
  return {
    about,
    leftOut,
    bytes: parts.reduce((sum, part) => sum + sizeOf(part), 0),
    /** Files and folders of a copy, also of what the base has. */
    files: parts.reduce((sum, { files }) => sum + files.length + 1, 0),
    /** Bytes of parts that the base does not have. */
    newBytes: (base: BaseBackup | undefined): number => parts.filter(({ name, sha256 }) => !hasPart(base, name, sha256))
      .reduce((sum, part) => sum + sizeOf(part), 0),
    /** Copies the parts; those that the base has become links to it, where the disk can. */
    async copyTo (target: string, options: Parameters<typeof copyPart>[2]): Promise<CopiedParts> {
      const copied: CopiedParts = { files: [], sharedBytes: 0 }
      for (const part of parts) await copyPart(part, target, options, copied)
      return copied
    }
  }
}

async function describeTable (
  clickhouse: ClickHouse, shadow: string, table: ObjectRow & { key: string }
): Promise<{ about: ClickHouseTable, frozen: FrozenPart[] }> {
  const { key, database, name, dataPath } = table
  const folder = path.join(shadow, dataPath.slice(dataPath.lastIndexOf('/store/') + 1))
  const parts = await readParts(clickhouse, table, folder)
  const frozen: FrozenPart[] = []
  let rows = 0
  for (const part of parts) {
    frozen.push(await describePart(path.join('clickhouse', key, part), path.join(folder, part)))
    rows += Number(await readFile(path.join(folder, part, 'count.txt'), 'utf8'))
  }
  const columns = await queryRows<ColumnOfTable>(clickhouse, LIST_COLUMNS, { database, name })
  return { about: { database, name, rows, parts, columns }, frozen }
}

async function describePart (name: string, folder: string): Promise<FrozenPart> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = await Promise.all(entries.filter((entry) => entry.isFile()).map(async (entry) => {
    const file = path.join(entry.parentPath, entry.name)
    return { name: path.relative(folder, file), bytes: (await stat(file)).size }
  }))
  const checksums = await readFile(path.join(folder, CHECKSUMS))
  return { name, folder, files, sha256: createHash('sha256').update(checksums).digest('hex') }
}

function sizeOf ({ files }: FrozenPart): number {
  return files.reduce((sum, { bytes }) => sum + bytes, 0)
}

async function copyPart (
  { name, folder, files, sha256 }: FrozenPart, target: string,
  { base, onBytes }: { base?: BaseBackup | undefined, onBytes: OnBytes }, copied: CopiedParts
): Promise<void> {
  const isShared = hasPart(base, name, sha256)
  for (const file of files) {
    const inBackup = path.join(name, file.name)
    const shared = isShared ? await linkFromBase(base!, target, { name: inBackup, bytes: file.bytes }) : undefined
    if (shared === undefined) {
      const source = createReadStream(path.join(folder, file.name))
      copied.files.push(await writeBackupFile(target, inBackup, source, { onBytes }))
    } else {
      copied.files.push(shared)
      copied.sharedBytes += file.bytes
      onBytes(file.bytes)
    }
  }
}

/**
 * Removes the hard links of killed backups, which keep parts on the disk after they were merged away.
 *
 * @param dataDir  Data folder of ClickHouse. No other backup of it may be running.
 */
export async function removeFrozenTables (dataDir: string): Promise<void> {
  const shadow = path.join(dataDir, 'shadow')
  // ClickHouse creates the folder with the first snapshot.
  const names = await readdir(shadow).catch(() => [])
  for (const name of names.filter((name) => name.startsWith(FROZEN_BY_BACKUP))) {
    await rm(path.join(shadow, name), { recursive: true, force: true })
  }
}

/**
 * Makes what users had in ClickHouse, and attaches the parts of a backup to the empty tables. Attaching does not
 * trigger materialized views: their tables have parts of their own in the backup.
 *
 * @param options.dataDir  Data folder of ClickHouse, on this machine.
 * @returns what of users could not be restored.
 * @throws {MillraceError} `MILLRACE_RESTORE_FAILED` when a table is missing or has another number of rows afterwards.
 */
export async function restoreTables (
  clickhouse: ClickHouse, about: BackupManifest['clickhouse'],
  { folder, dataDir, onPart }: { folder: string, dataDir: string, onPart: (part: string) => void }
): Promise<LeftOut[]> {
  const { tables = [], views = [] } = Object.groupBy(about.definitions, ({ isView }) => isView === true ? 'views' : 'tables')
  const failed = await restoreDefinitions(clickhouse, dataDir, tables)
  const found = await listObjects(clickhouse)
  for (const [key, { parts, rows, columns, ...named }] of Object.entries(about.tables)) {
    const table = quoteTable(named)
    const target = found.find((each) => quoteTable(each) === table)
    if (target === undefined) {
      if (failed.some((each) => each.table === table)) continue
      throw new MillraceError('MILLRACE_RESTORE_FAILED', `there is no table ${named.name}`)
    }
    await matchColumns(clickhouse, target, columns)
    // Merges would change the row counts before they are compared.
    await clickhouse.command({ query: setMerges(table, 'STOP') })
    for (const part of parts) {
      const source = path.join('clickhouse', key, part)
      await cp(path.join(folder, source), path.join(target.dataPath, 'detached', part), { recursive: true })
      await clickhouse.command({ query: attachPart(table, part) })
      onPart(source)
    }
    const count = await countRows(clickhouse, target)
    if (count !== rows) throw new MillraceError('MILLRACE_RESTORE_FAILED', `table ${table} has ${count} rows instead of ${rows}`)
    // Later migrations may rewrite parts, which is done by merges.
    await clickhouse.command({ query: setMerges(table, 'START') })
  }
  return [...failed, ...await restoreDefinitions(clickhouse, dataDir, views)]
}

/** Parts in the snapshot of a table; an empty table has no folder. */
async function readParts (clickhouse: ClickHouse, table: TableName, folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  if (names.length === 0 && await countRows(clickhouse, table) > 0) {
    throw new MillraceError('MILLRACE_BACKUP_FAILED', `${folder} holds no parts of table ${quoteTable(table)}`)
  }
  return names
}

/**
 * Adds columns that no migration creates: those of promoted properties. The files of a part fit only the columns that
 * they were written from.
 */
async function matchColumns (
  clickhouse: ClickHouse, { database, name }: TableName, columns: readonly ColumnOfTable[]
): Promise<void> {
  const found = await queryRows<ColumnOfTable>(clickhouse, LIST_COLUMNS, { database, name })
  for (const { name: column, type } of found) {
    const backedUp = columns.find((each) => each.name === column)?.type
    if (backedUp === type) continue
    throw new MillraceError('MILLRACE_RESTORE_OTHER_VERSION', `column ${column} of ${name} is ${backedUp ?? 'missing'} in the ` +
      `backup and ${type} in this version: restore it with the Millrace version that made it`)
  }
  const table = quoteTable({ database, name })
  for (const column of columns) {
    if (found.every((each) => each.name !== column.name)) await clickhouse.command({ query: addColumn(table, column) })
  }
}

async function countRows (clickhouse: ClickHouse, { database, name }: TableName): Promise<number> {
  const [row] = await queryRows<{ rows: string }>(clickhouse, COUNT_ROWS, { database, name })
  return Number(row?.rows)
}
