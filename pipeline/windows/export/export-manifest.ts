/** Manifests: what they say of a window of a table, and where they are. */
import type { TimeWindow } from '../window-task.ts'
import type { ExportedColumn, ExportedTable, ExportFilter } from './export-tables.ts'
import type { FileFacts } from './parquet-file.ts'

export type FileOfManifest = FileFacts & { name: string }

/** What a manifest says. Its file is this as JSON, and `previous` of the next one is the SHA-256 of that file. */
export interface Manifest {
  format: 1
  project: number
  table: ExportedTable
  window: { from: string, to: string }
  revision: number
  reason: string
  /** Position in the chain of the table, from 1, and SHA-256 of the manifest before; null in the first. */
  sequence: number
  previous: string | null
  rows: number
  files: FileOfManifest[]
  filter: ExportFilter | null
  /** Rows of the window that the filter left out. */
  left_out: number
  /** Number of columns: they are only ever added. */
  schema_version: number
  columns: readonly ExportedColumn[]
  /** The books of the window, of events. */
  ledger: Record<string, number> | null
  written_at: string
}

/** Folder of a window below the table's: both DuckDB and ClickHouse read `date` and `hour` as columns. */
export function windowFolder (schedule: 'hour' | 'day', from: Date): string {
  const [date, hour] = [from.toISOString().slice(0, 10), from.toISOString().slice(11, 13)]
  return schedule === 'day' ? `date=${date}` : `date=${date}/hour=${hour}`
}

/** Below the table's folder. */
export function manifestName (schedule: 'hour' | 'day', from: Date, revision: number): string {
  return `${windowFolder(schedule, from)}/r${revision}.manifest.json`
}

/** @throws when it is not the manifest of this window; without its content, which may be of any server. */
export function parseManifest (
  content: string, name: string, { table, from, to, revision }: TimeWindow & Pick<Manifest, 'table' | 'revision'>
): Manifest {
  const expected = JSON.stringify([table, from, to, revision])
  try {
    const manifest: Manifest = JSON.parse(content)
    const { window } = manifest
    if (JSON.stringify([manifest.table, window.from, window.to, manifest.revision]) === expected) return manifest
  } catch {
    // Safe to ignore: reported below.
  }
  throw new Error(`${name} in the target is not the manifest of ${expected}`)
}
