import { createReadStream } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { MillraceError } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { describeMigrations, POSTGRES } from '../../schema/backup-statements.ts'
import { type BackupFile, type OnBytes, writeBackupFile } from './backup-files.ts'
import type { BackupManifest, Sequence } from './backup-folder.ts'

/** Tables that the migrations of a restore fill, and the salts of visitors without cookies, which nobody may keep. */
const LEFT_OUT = ['schema_migrations', 'schema_migration_checksums', 'schema_versions', 'cookieless_salts']

export interface PostgresBackup { about: BackupManifest['postgres'], files: BackupFile[] }

/** Copies every table as the transaction sees it. The transaction must be repeatable read. */
export async function backUpPostgres (sql: TransactionSql, folder: string, onBytes: OnBytes): Promise<PostgresBackup> {
  const [{ version } = { version: '' }] = await sql.unsafe<{ version: string }[]>(POSTGRES.readVersion)
  const tables: BackupManifest['postgres']['tables'] = {}
  const files: BackupFile[] = []
  for (const { name, columns } of await listTables(sql)) {
    const source = await sql.copyTo(POSTGRES.copyOut(name, columns))
    files.push(await writeBackupFile(folder, fileOf(name), source, { transforms: [createZstdCompress()], onBytes }))
    const [{ rows } = { rows: 0 }] = await sql.unsafe<{ rows: number }[]>(POSTGRES.countRows(name))
    tables[name] = { columns, rows }
  }
  const sequences = await sql.unsafe<Sequence[]>(POSTGRES.listSequences)
  const migrations = describeMigrations(await sql.unsafe(POSTGRES.listMigrations))
  return { about: { version, ...migrations, tables, sequences: [...sequences] }, files }
}

/** Replaces the contents of a migrated database by those of the backup, in one transaction. */
export async function restorePostgres (
  sql: Sql, about: BackupManifest['postgres'], { folder, onBytes }: { folder: string, onBytes: OnBytes }
): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction.unsafe(POSTGRES.disableTriggers)
    const found = await listTables(transaction)
    refuseOtherColumns(found, about.tables)
    await transaction.unsafe(POSTGRES.truncate(found.map(({ name }) => name)))
    for (const [name, { columns, rows }] of Object.entries(about.tables)) {
      const target = await transaction.copyFrom(POSTGRES.copyIn(name, columns))
      await pipeline(createReadStream(path.join(folder, fileOf(name))), async function * (chunks) {
        for await (const chunk of chunks) {
          onBytes((chunk as Buffer).length)
          yield chunk
        }
      }, createZstdDecompress(), target)
      const [found] = await transaction.unsafe<{ rows: number }[]>(POSTGRES.countRows(name))
      if (found?.rows !== rows) throw new Error(`table ${name} of Postgres has ${found?.rows} rows instead of ${rows}`)
    }
    for (const { name, last } of about.sequences) {
      if (last !== null) await transaction.unsafe(POSTGRES.setSequence, [`public."${name}"`, last])
    }
  })
}

/** Rows fit only the columns that they were written from. */
function refuseOtherColumns (
  found: readonly { name: string, columns: string[] }[], tables: BackupManifest['postgres']['tables']
): void {
  const here = new Map(found.map(({ name, columns }) => [name, columns]))
  for (const name of new Set([...here.keys(), ...Object.keys(tables)])) {
    const [columns, backedUp] = [here.get(name) ?? [], tables[name]?.columns ?? []]
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
  return path.join('postgres', `${table}.copy.zst`)
}
