import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { MillraceError } from '../../engines/errors.ts'
import { describeVersion } from '../version.ts'
import type { Query } from './schema-versions.ts'

/** One migration file: `NNNN_verb_noun.sql`, never edited once released. */
export interface Migration {
  /** File name without `.sql`. */
  name: string
  sql: string
  /** SHA-256 of the file in hex; a released file that changed is refused. */
  checksum: string
}

const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/

/** Reads the migrations of a folder, ordered by number. */
export async function readMigrations (folder: string): Promise<Migration[]> {
  const files = (await readdir(folder)).filter((file) => FILE_NAME.test(file)).sort()
  return await Promise.all(files.map(async (file) => {
    const sql = await readFile(path.join(folder, file), 'utf8')
    return { name: file.slice(0, -'.sql'.length), sql, checksum: createHash('sha256').update(sql).digest('hex') }
  }))
}

/**
 * The statements of a ClickHouse migration: ClickHouse runs one at a time. Each ends with a semicolon at the end of a
 * line, which therefore no line of a comment ends with.
 */
export function splitStatements ({ sql }: Pick<Migration, 'sql'>): string[] {
  return sql.split(/;\n/).filter((statement) => statement.trim() !== '')
}

/** Names of the tables that ClickHouse migrations make. */
export function listTables (migrations: readonly Pick<Migration, 'sql'>[]): string[] {
  return migrations.flatMap(({ sql }) => [...sql.matchAll(/^CREATE TABLE IF NOT EXISTS (\w+)/gm)].map(([, name = '']) => name))
}

/** The same with views. */
export function listObjects (migrations: readonly Pick<Migration, 'sql'>[]): string[] {
  const create = /^CREATE (?:OR REPLACE VIEW|(?:TABLE|VIEW|MATERIALIZED VIEW) IF NOT EXISTS) (\w+)/gm
  return [...new Set(migrations.flatMap(({ sql }) => [...sql.matchAll(create)].map(([, name = '']) => name)))]
}

/** What a database remembers of a migration that it has. */
export interface AppliedMigration {
  name: string
  /** Null when a process of 0.1.0 that ran it died before it recorded the checksum. */
  checksum: string | null
}

/** Reads which migrations Postgres has, those included that a killed process of 0.1.0 left without a checksum. */
export async function readAppliedOfPostgres (query: Query): Promise<AppliedMigration[]> {
  const read = async (table: string): Promise<Record<string, unknown>[]> => {
    const { rows: [found] } = await query('SELECT to_regclass($1) IS NOT NULL AS there', [table])
    return found?.there === true ? (await query(`SELECT * FROM ${table}`)).rows : []
  }
  const recorded = (await read('schema_migration_checksums')).map(({ name, checksum }) => ({ name: String(name), checksum: String(checksum) }))
  const names = new Set(recorded.map(({ name }) => name))
  // Only 0.1.0 wrote this table, together with the migration.
  const run = (await read('schema_migrations')).map(({ name }) => String(name))
  return [...recorded, ...run.filter((name) => !names.has(name)).map((name) => ({ name, checksum: null }))]
}

/**
 * Returns the migrations that are still to be applied.
 *
 * @throws {MillraceError} when the database holds one that this version does not know, or knows with another content.
 */
export function selectPending (
  database: string, migrations: readonly Migration[], applied: readonly AppliedMigration[]
): Migration[] {
  const known = new Map(migrations.map((migration) => [migration.name, migration]))
  for (const { name, checksum } of applied) {
    const migration = known.get(name)
    if (migration === undefined) {
      throw new MillraceError('MILLRACE_MIGRATION_UNKNOWN',
        `${database} has migration ${name}, which this version of Millrace, ${describeVersion()}, does not know: run the version that made it, or a newer one`)
    }
    if (checksum !== null && migration.checksum !== checksum) {
      throw new MillraceError('MILLRACE_MIGRATION_CHANGED',
        `migration ${name} of ${database} is not the one that was applied: restore its file and add a new one`)
    }
  }
  const done = new Set(applied.filter(({ checksum }) => checksum !== null).map(({ name }) => name))
  return migrations.filter(({ name }) => !done.has(name))
}
