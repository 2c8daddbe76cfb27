import { createReadStream } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { MillraceError } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type BackupFile, type OnBytes, writeBackupFile } from './backup-files.ts'
import type { BackedUpSchema, BackupManifest, Sequence } from './backup-folder.ts'

/** Tables that the migrations of a restore fill, and the salts of visitors without cookies, which nobody may keep. */
const LEFT_OUT = ['schema_migrations', 'schema_migration_checksums', 'schema_versions', 'cookieless_salts']

export interface PostgresBackup {
  about: BackupManifest['postgres']
  files: BackupFile[]
}

/** Copies every table as the transaction sees it. The transaction must be repeatable read. */
export async function backUpPostgres (sql: TransactionSql, folder: string, onBytes: OnBytes): Promise<PostgresBackup> {
  const [{ version } = { version: '' }] = await sql<{ version: string }[]>`SELECT current_setting('server_version') AS version`
  const tables: BackupManifest['postgres']['tables'] = {}
  const files: BackupFile[] = []
  for (const { name, columns } of await listTables(sql)) {
    const source = await sql.copyTo(`COPY "${name}" (${quoteAll(columns)}) TO STDOUT`)
    files.push(await writeBackupFile(folder, fileOf(name), source, { transforms: [createZstdCompress()], onBytes }))
    const [{ rows } = { rows: 0 }] = await sql.unsafe<{ rows: number }[]>(`SELECT count(*) AS rows FROM "${name}"`)
    tables[name] = { columns, rows }
  }
  const sequences = await sql<Sequence[]>`
    SELECT sequencename AS name, last_value::text AS last FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1`
  return { about: { version, ...await listPostgresMigrations(sql), tables, sequences: [...sequences] }, files }
}

async function listPostgresMigrations (
  sql: TransactionSql
): Promise<Pick<BackedUpSchema, 'migrations' | 'checksums'>> {
  const rows = await sql<{ name: string, checksum: string }[]>`
    SELECT name, checksum FROM schema_migration_checksums ORDER BY name`
  return {
    migrations: rows.map(({ name }) => name),
    checksums: Object.fromEntries(rows.map(({ name, checksum }) => [name, checksum]))
  }
}

/** Where a database is restored from. */
export interface RestoreFrom {
  /** Of the backup. */
  folder: string
  /** Whether the backup may lack tables and columns of this version: they stay empty, or have their defaults. */
  mayLack: boolean
}

/** Replaces the contents of a migrated database by those of the backup, in one transaction. */
export async function restorePostgres (
  sql: Sql, about: BackupManifest['postgres'], { folder, mayLack, onBytes }: RestoreFrom & { onBytes: OnBytes }
): Promise<void> {
  await sql.begin(async (transaction) => {
    // Disables triggers and foreign keys, as rows arrive table by table; together they are consistent.
    await transaction`SET LOCAL session_replication_role = replica`
    const found = await listTables(transaction)
    refuseOtherColumns(found, about.tables, mayLack)
    await transaction.unsafe(`TRUNCATE ${quoteAll(found.map(({ name }) => name))}`)
    for (const [name, { columns, rows }] of Object.entries(about.tables)) {
      const target = await transaction.copyFrom(`COPY "${name}" (${quoteAll(columns)}) FROM STDIN`)
      await pipeline(createReadStream(path.join(folder, fileOf(name))), async function * (chunks) {
        for await (const chunk of chunks) {
          onBytes((chunk as Buffer).length)
          yield chunk
        }
      }, createZstdDecompress(), target)
      const [found] = await transaction.unsafe<{ rows: number }[]>(`SELECT count(*) AS rows FROM "${name}"`)
      if (found?.rows !== rows) throw new Error(`table ${name} of Postgres has ${found?.rows} rows instead of ${rows}`)
    }
    for (const { name, last } of about.sequences) {
      if (last !== null) await transaction`SELECT setval(${`public."${name}"`}::regclass, ${last}::bigint)`
    }
  })
}

/** Rows fit only the columns that they were written from. */
function refuseOtherColumns (
  found: readonly { name: string, columns: string[] }[], tables: BackupManifest['postgres']['tables'], mayLack: boolean
): void {
  const here = new Map(found.map(({ name, columns }) => [name, columns]))
  for (const name of new Set([...here.keys(), ...Object.keys(tables)])) {
    const [columns, backedUp] = [here.get(name) ?? [], tables[name]?.columns ?? []]
    const isComplete = mayLack || columns.every((column) => backedUp.includes(column))
    if (isComplete && backedUp.every((column) => columns.includes(column))) continue
    const list = (names: readonly string[]): string => names.toSorted().join(', ') || '-'
    throw new MillraceError('MILLRACE_RESTORE_OTHER_VERSION', `table ${name} of Postgres has columns ${list(backedUp)} in ` +
      `the backup and ${list(columns)} in this version: restore it with the programs that wrote it`)
  }
}

async function listTables (sql: TransactionSql): Promise<{ name: string, columns: string[] }[]> {
  return await sql<{ name: string, columns: string[] }[]>`
    SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
      AND NOT a.attisdropped AND a.attgenerated = '' AND c.relname <> ALL (${LEFT_OUT})
    GROUP BY 1 ORDER BY 1`
}

function fileOf (table: string): string {
  return path.join('postgres', `${table}.copy.zst`)
}

function quoteAll (names: readonly string[]): string {
  return names.map((name) => `"${name.replaceAll('"', '""')}"`).join(', ')
}
