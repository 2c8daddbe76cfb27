/**
 * Manifests that Postgres knows and the target lacks, as while its disk is not mounted: nothing is written then. And
 * those in the target that Postgres does not know, as after its restore from a backup: their positions in the chain are
 * recorded before a further one is made: it follows the last of all. A window of them is adopted when it is closed.
 */
import { hash } from 'node:crypto'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { windowAt } from '../window-task.ts'
import { type Manifest, manifestName, parseManifest } from './export-manifest.ts'
import type { ExportedTable } from './export-tables.ts'
import { type ExportTarget, textOf } from './export-target.ts'
import type { ExportSettings } from './write-revision.ts'

const TABLES: readonly ExportedTable[] = ['events', 'persons', 'merges']

interface Deps { sql: Sql, target: ExportTarget, signal: AbortSignal }

/**
 * To be called before a window of a table is written. Costs one read.
 *
 * @throws when the last manifest of the table is not in the target as it was written: it is another folder or bucket.
 */
export async function requireLastManifest (
  table: ExportedTable, { id, folder, schedule }: ExportSettings, deps: Deps
): Promise<void> {
  const [last] = await deps.sql<{ from: Date, revision: number, sha256: string }[]>`
    SELECT window_from AS from, revision, manifest_sha256 AS sha256 FROM export_windows
    WHERE export_id = ${id} AND table_name = ${table} AND sequence IS NOT NULL ORDER BY sequence DESC LIMIT 1`
  if (last === undefined) return
  const name = `${table}/${manifestName(schedule, last.from, last.revision)}`
  const content = await deps.target.read(`${folder}/${name}`, deps.signal)
  if (content !== null && hash('sha256', await textOf(content)) === last.sha256) return
  throw new Error(`the folder ${folder} is not the one that this export has written to: ${name} is ${content === null ? 'missing' : 'another one'}. Mount its disk, restore the bucket, or create another export`)
}

/**
 * To be called before a process writes to an export for the first time.
 *
 * @throws when two manifests have one position: two databases have written to the target.
 */
export async function recordUnknownManifests (job: ExportSettings, deps: Deps): Promise<void> {
  for (const table of TABLES) {
    const known = await deps.sql<{ from: Date, revision: number, sequence: number }[]>`
      SELECT window_from AS from, revision, sequence FROM export_windows
      WHERE export_id = ${job.id} AND table_name = ${table} AND sequence IS NOT NULL`
    const named = new Map(known.map(({ from, revision, sequence }) =>
      [manifestName(job.schedule, from, revision), sequence]))
    const taken = new Map([...named].map(([name, sequence]) => [sequence, name]))
    for await (const name of deps.target.listManifests(`${job.folder}/${table}`, deps.signal)) {
      if (named.has(name)) continue
      const { manifest, sha256 } = await readManifest(job, table, name, deps)
      const other = taken.get(manifest.sequence)
      if (other !== undefined) {
        throw new Error(`${table}/${name} and ${table}/${other} both have position ${manifest.sequence} in the chain: two databases wrote to ${job.folder}. Pause this export and make another one`)
      }
      taken.set(manifest.sequence, name)
      await deps.sql`
        INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason, sequence, manifest_sha256)
        VALUES (${job.id}, ${table}, ${manifest.window.from}, ${manifest.window.to}, ${manifest.revision}, 'schedule', ${manifest.sequence}, ${sha256})
        ON CONFLICT (export_id, table_name, window_from, revision) DO UPDATE SET sequence = excluded.sequence, manifest_sha256 = excluded.manifest_sha256`
    }
  }
}

/** Its name says of which window it is. */
async function readManifest (
  { folder, schedule }: ExportSettings, table: ExportedTable, name: string, { target, signal }: Deps
): Promise<{ manifest: Manifest, sha256: string }> {
  const [, date, hour = '00', revision] = /^date=([\d-]+)(?:\/hour=(\d\d))?\/r(\d+)\./.exec(name) ?? []
  const window = windowAt(schedule, new Date(`${date}T${hour}:00:00Z`))
  const content = await target.read(`${folder}/${table}/${name}`, signal)
  const found = content === null ? '' : await textOf(content)
  const manifest = parseManifest(found, `${folder}/${table}/${name}`, { table, ...window, revision: Number(revision) })
  return { manifest, sha256: hash('sha256', found) }
}
