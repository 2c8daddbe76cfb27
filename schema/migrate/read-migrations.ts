import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { readVersion } from '../version.ts'

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

/** What a database remembers of a migration that it has. */
export interface AppliedMigration {
  name: string
  checksum: string
}

/** The database was migrated by a newer Millrace, or a released migration was edited. */
export class MigrationError extends Error {
  readonly code: 'MILLRACE_MIGRATION_UNKNOWN' | 'MILLRACE_MIGRATION_CHANGED'

  constructor (code: MigrationError['code'], message: string) {
    super(message)
    this.name = 'MigrationError'
    this.code = code
  }
}

/** A refusal of a database that a newer version migrated, with both versions; any other error as it is. */
export function nameNewerVersion (error: unknown, newest: string | undefined): unknown {
  if (!(error instanceof MigrationError) || error.code !== 'MILLRACE_MIGRATION_UNKNOWN' || newest === undefined) return error
  return new MigrationError(error.code, `the databases were migrated by Millrace ${newest}, and this is ${readVersion()}: ${error.message}`)
}

/** What the same error means after a change of names before the first release. */
const EARLIER_STATE = 'or, when the data is of a development state before the first release, start with an empty data directory'

/**
 * Tells which migrations are still to be applied.
 *
 * @throws {MigrationError} when the database holds one that this version does not know, or knows with another content.
 */
export function selectPending (
  database: string, migrations: readonly Migration[], applied: readonly AppliedMigration[]
): Migration[] {
  const known = new Map(migrations.map((migration) => [migration.name, migration]))
  for (const { name, checksum } of applied) {
    const migration = known.get(name)
    if (migration === undefined) {
      throw new MigrationError('MILLRACE_MIGRATION_UNKNOWN',
        `${database} has migration ${name}, which this version of Millrace does not know: run a newer version, ` +
        EARLIER_STATE)
    }
    if (migration.checksum !== checksum) {
      throw new MigrationError('MILLRACE_MIGRATION_CHANGED',
        `migration ${name} of ${database} is not the one that was applied: restore its file and add a new one, ` +
        EARLIER_STATE)
    }
  }
  const done = new Set(applied.map(({ name }) => name))
  return migrations.filter(({ name }) => !done.has(name))
}
