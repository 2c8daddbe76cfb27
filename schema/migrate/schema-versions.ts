import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { compareVersions, describeVersion, OLDEST_COMPATIBLE_VERSION, readCommit, readVersion } from '../version.ts'

/** What `schema_versions` says of the newest version that migrated the databases. */
export interface SchemaVersion {
  version: string
  /** Undefined where it was not known, and of 0.1.0, which did not record it. */
  commit: string | undefined
  oldestCompatible: string
  /** SHA-256, by path, of `FILES_BY_HAND` as that version had them. */
  files: Record<string, string>
  migratedAt: Date
}

/** Files that an operator applies where each tier has a login of its own; a package has all of them. */
export const FILES_BY_HAND = [
  'deploy/postgres/roles.sql', 'deploy/clickhouse/users.sql', 'deploy/clickhouse/analyst.sql', 'deploy/nats/permissions.conf'
] as const

/** Runs a query of Postgres with its parameters. */
export type Query = (text: string, parameters?: unknown[]) => Promise<{ rows: Record<string, unknown>[] }>

const ROOT = path.join(import.meta.dirname, '..', '..')

/** Undefined when no version recorded itself: an empty database, or one of before `schema_versions`. */
export async function readSchemaVersion (query: Query): Promise<SchemaVersion | undefined> {
  if (!await hasTable(query)) return undefined
  const { rows } = await query('SELECT * FROM schema_versions')
  // By version, not by time: the clock of a machine may have been wrong, and nothing goes back.
  const [row] = rows.sort((one, other) => compareVersions(String(other.version), String(one.version)))
  if (row === undefined) return undefined
  return {
    version: String(row.version),
    commit: row.commit ? String(row.commit) : undefined,
    oldestCompatible: String(row.oldest_compatible),
    files: row.files as Record<string, string>,
    migratedAt: new Date(row.migrated_at as string)
  }
}

/** A database that a later version migrated, seen from this one. */
export interface NewerDatabase {
  /** Says both versions and what to do. */
  why: string
  /** Whether the processes of this version may go on beside those of the later one; migrate they never may. */
  mayRun: boolean
}

/** Says whether a later version than this one migrated the databases; every program that refuses one asks here. */
export function describeNewerDatabase (known: SchemaVersion | undefined): NewerDatabase | undefined {
  const own = readVersion()
  if (known === undefined || compareVersions(own, known.version) >= 0) return undefined
  const { version, commit, oldestCompatible } = known
  const mayRun = compareVersions(own, oldestCompatible) >= 0
  const works = mayRun ? '' : `, which works with ${oldestCompatible} and newer`
  return {
    mayRun,
    why: `the database was migrated by Millrace ${describeVersion({ version, commit })}${works}, and this is ${describeVersion()}: run ${version}, or restore a backup of before the upgrade`
  }
}

/** Which of `FILES_BY_HAND` differ from those of the version that is recorded; of no record, all of them. */
export async function changedFilesByHand (known: SchemaVersion | undefined): Promise<string[]> {
  const hashes = Object.entries(await hashFilesByHand())
  return hashes.filter(([file, hash]) => known?.files[file] !== hash).map(([file]) => file)
}

/** What an operator does with one of `FILES_BY_HAND`. */
export function howToApply (file: string): string {
  return file.includes('/nats/')
    ? 'with logins of your own, put it beside nats.conf and reload nats-server, before the processes are replaced'
    : 'with logins of your own, "millrace logins create" after the migrations'
}

/** Records that this version has migrated both databases; once, unless its files changed. */
export async function recordSchemaVersion (query: Query): Promise<void> {
  if (!await hasTable(query)) return
  await query(`INSERT INTO schema_versions AS known (version, oldest_compatible, files, commit) VALUES ($1, $2, $3, $4)
    ON CONFLICT (version) DO UPDATE SET oldest_compatible = EXCLUDED.oldest_compatible, files = EXCLUDED.files, commit = EXCLUDED.commit
    WHERE (known.oldest_compatible, known.files, known.commit) IS DISTINCT FROM (EXCLUDED.oldest_compatible, EXCLUDED.files, EXCLUDED.commit)`,
  [readVersion(), OLDEST_COMPATIBLE_VERSION, JSON.stringify(await hashFilesByHand()), readCommit() ?? ''])
}

async function hasTable (query: Query): Promise<boolean> {
  const { rows: [found] } = await query("SELECT to_regclass('schema_versions') IS NOT NULL AS there")
  return found?.there === true
}

/** SHA-256 of each of `FILES_BY_HAND` that this installation has. */
async function hashFilesByHand (): Promise<Record<string, string>> {
  const hashes = await Promise.all(FILES_BY_HAND.map(async (file) => {
    const content = await findFile(file)
    return content === undefined ? [] : [[file, createHash('sha256').update(content).digest('hex')] as const]
  }))
  return Object.fromEntries(hashes.flat())
}

/** In a package, what only people read is beside `dist/`, the folder with the programs. */
async function findFile (file: string): Promise<Buffer | undefined> {
  for (const root of [ROOT, path.join(ROOT, '..')]) {
    const content = await readFile(path.join(root, file)).catch(() => undefined)
    if (content !== undefined) return content
  }
  return undefined
}
