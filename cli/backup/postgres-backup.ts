import { createReadStream } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createZstdDecompress } from 'node:zlib'
import { MillraceError } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { describeMigrations, POSTGRES } from '../../schema/backup-statements.ts'
import { type BackupFile, type OnBytes, tap, writeBackupFile } from './backup-files.ts'
import type { BackupManifest, Sequence } from './backup-folder.ts'
import type { LeftOut } from './clickhouse-definitions.ts'

/**
 * Tables that the migrations of a restore fill, the salts of visitors without cookies, which nobody may keep, and what
 * must not be valid again after a restore: sessions that ended, links that were used.
 */
const LEFT_OUT = [
  'schema_migrations', 'schema_migration_checksums', 'schema_versions', 'cookieless_salts',
  'console_sessions', 'console_login_links', 'invitations', 'login_attempts'
]

/** Copies every table as the transaction sees it. The transaction must be repeatable read. */
export async function backUpPostgres (sql: TransactionSql, folder: string, onBytes: OnBytes) {
  const [{ version } = { version: '' }] = await sql.unsafe<{ version: string }[]>(POSTGRES.readVersion)
  const tables: BackupManifest['postgres']['tables'] = {}
  const files: BackupFile[] = []
  for (const { name, columns } of await listTables(sql)) {
    const source = await sql.copyTo(POSTGRES.copyOut(name, columns))
    files.push(await writeBackupFile(folder, fileOf(name), source, { isCompressed: true, onBytes }))
    const [{ rows } = { rows: 0 }] = await sql.unsafe<{ rows: number }[]>(POSTGRES.countRows(name))
    tables[name] = { columns, rows }
  }
  const sequences = await sql.unsafe<Sequence[]>(POSTGRES.listSequences)
  const migrations = describeMigrations(await sql.unsafe(POSTGRES.listMigrations))
  const others = await sql.unsafe<{ what: string }[]>(POSTGRES.listOthers)
  return {
    about: { version, ...migrations, tables, sequences: [...sequences] },
    files,
    /** What users made, and the backup does not have. */
    leftOut: others.map(({ what }) => ({ what: `Postgres: ${what} (only tables of the schema public are included)`, isLost: true }))
  }
}

/**
 * Replaces the contents of a migrated database by those of the backup, in one transaction.
 *
 * @returns tables of users, which no migration makes.
 */
export async function restorePostgres (
  sql: Sql, about: BackupManifest['postgres'], { folder, onBytes }: { folder: string, onBytes: OnBytes }
): Promise<LeftOut[]> {
  return await sql.begin(async (transaction) => {
    await transaction.unsafe(POSTGRES.disableTriggers)
    const found = new Map((await listTables(transaction)).map(({ name, columns }) => [name, columns]))
    refuseOtherColumns(found, about.tables)
    await transaction.unsafe(POSTGRES.truncate([...found.keys()]))
    const leftOut: LeftOut[] = []
    for (const [name, { columns, rows }] of Object.entries(about.tables)) {
      // Of a backup by a version that still took them.
      if (LEFT_OUT.includes(name)) continue
      if (!found.has(name)) {
        leftOut.push({ what: `Postgres: table ${name}, which Millrace does not create; its rows are in ${fileOf(name)} of the backup`, isLost: true })
        continue
      }
      const target = await transaction.copyFrom(POSTGRES.copyIn(name, columns))
      const read = tap((chunk) => { onBytes(chunk.length) })
      await pipeline(createReadStream(path.join(folder, fileOf(name))), read, createZstdDecompress(), target)
      const [counted] = await transaction.unsafe<{ rows: number }[]>(POSTGRES.countRows(name))
      if (counted?.rows !== rows) throw new Error(`table ${name} of Postgres has ${counted?.rows} rows instead of ${rows}`)
    }
    for (const { name, last } of about.sequences) {
      if (last !== null) await transaction.unsafe(POSTGRES.setSequence, [name, last])
    }
    return leftOut
  })
}

/** Rows fit only the columns that they were written from. */
function refuseOtherColumns (found: ReadonlyMap<string, string[]>, tables: BackupManifest['postgres']['tables']): void {
  for (const [name, columns] of found) {
    const backedUp = tables[name]?.columns ?? []
    if (columns.toSorted().join() === backedUp.toSorted().join()) continue
    const list = (names: readonly string[]): string => names.toSorted().join(', ') || '-'
    throw new MillraceError('MILLRACE_RESTORE_OTHER_VERSION', `table ${name} of Postgres has columns ${list(backedUp)} in ` +
      `the backup and ${list(columns)} in this version: restore it with the Millrace version that made it`)
  }
}

async function listTables (sql: TransactionSql): Promise<{ name: string, columns: string[] }[]> {
  return await sql.unsafe<{ name: string, columns: string[] }[]>(POSTGRES.listTables, [LEFT_OUT])
}

function fileOf (table: string): string {
  return path.join('postgres', `${encodeURIComponent(table)}.copy.zst`)
}
