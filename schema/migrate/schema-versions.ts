import { compareVersions, describeVersion, OLDEST_COMPATIBLE_VERSION, readCommit, readVersion } from '../version.ts'

/** Runs a query of Postgres with its parameters. */
export type Query = (text: string, parameters?: unknown[]) => Promise<{ rows: Record<string, unknown>[] }>

/**
 * What `schema_versions` says of the newest version that migrated the databases. Undefined when no version recorded
 * itself: an empty database, or one of before that table.
 */
export async function readSchemaVersion (query: Query) {
  if (!await hasTable(query)) return undefined
  const { rows } = await query('SELECT * FROM schema_versions')
  // By version, not by time: the clock of a machine may have been wrong, and nothing goes back.
  const [row] = rows.sort((one, other) => compareVersions(String(other.version), String(one.version)))
  if (row === undefined) return undefined
  return {
    version: String(row.version),
    /** Undefined where it was not known, and of 0.1.0, which did not record it. */
    commit: row.commit ? String(row.commit) : undefined,
    oldestCompatible: String(row.oldest_compatible)
  }
}

/** Says whether a later version than this one migrated the databases; every program that refuses one asks here. */
export function describeNewerDatabase (known: Awaited<ReturnType<typeof readSchemaVersion>>) {
  const own = readVersion()
  if (known === undefined || compareVersions(own, known.version) >= 0) return undefined
  const { version, commit, oldestCompatible } = known
  const mayRun = compareVersions(own, oldestCompatible) >= 0
  const works = mayRun ? '' : `, which works with ${oldestCompatible} and newer`
  return {
    /** Whether the processes of this version may go on beside those of the later one; migrate they never may. */
    mayRun,
    /** Says both versions and what to do. */
    why: `the database was migrated by Millrace ${describeVersion({ version, commit })}${works}, and this is ${describeVersion()}: run ${version}, or restore a backup of before the upgrade`
  }
}

/** Records that this version has migrated both databases; once. Only 0.1.0 reads the column `files`. */
export async function recordSchemaVersion (query: Query): Promise<void> {
  if (!await hasTable(query)) return
  await query(`INSERT INTO schema_versions AS known (version, oldest_compatible, files, commit) VALUES ($1, $2, '{}', $3)
    ON CONFLICT (version) DO UPDATE SET oldest_compatible = EXCLUDED.oldest_compatible, commit = EXCLUDED.commit
    WHERE (known.oldest_compatible, known.commit) IS DISTINCT FROM (EXCLUDED.oldest_compatible, EXCLUDED.commit)`,
  [readVersion(), OLDEST_COMPATIBLE_VERSION, readCommit() ?? ''])
}

async function hasTable (query: Query): Promise<boolean> {
  const { rows: [found] } = await query("SELECT to_regclass('schema_versions') IS NOT NULL AS there")
  return found?.there === true
}
