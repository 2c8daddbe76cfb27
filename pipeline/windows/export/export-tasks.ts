/** Exports as tasks of closed windows. */
import path from 'node:path'
import { readCompleteThrough } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { pause } from '../../../platform/intervals.ts'
import type { Metrics } from '../../../platform/metrics.ts'
import { findSettledMoment } from '../../persons/deletion/event-removals.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { createSemaphore, type Semaphore } from '../../../platform/semaphore.ts'
import type { ListWindowTasks, TimeWindow, WindowEffects, WindowTask } from '../window-task.ts'
import type { ExportedTable } from './export-tables.ts'
import { clearScratch, type ExportTarget, openFolderTarget } from './export-target.ts'
import { recordUnknownManifests, requireLastManifest } from './find-manifests.ts'
import { planErasures, planLateRows, readInsertedThrough } from './plan-revisions.ts'
import { openS3Target, type S3Settings } from './s3-target.ts'
import { type ExportSettings, inTurn, type PlannedRevision, type RevisionDeps, writeRevision } from './write-revision.ts'

export interface ExportDeps extends Pick<RevisionDeps, 'sql' | 'clickhouse' | 'cluster' | 'onStep' | 'fileRows'> {
  /** Folder of targets that are folders; empty: none is allowed. */
  folder: string
  metrics: Metrics
}

/** Queries over the rows of windows that run at once, for all exports of a process. */
const MAX_READING = 4

interface SharedDeps extends ExportDeps {
  reading: Semaphore
  /** Exports whose target has no manifest that Postgres does not know. */
  checked: Set<number>
}

interface ExportRow extends ExportSettings {
  tables: ExportedTable[]
  target: { kind: 'folder' } | S3Settings
  paused: boolean
  since: Date
  /** Revisions to write, or erasures to look at. */
  isRevised: boolean
  /** Age of the end of the oldest closed window that is not exported, in seconds. */
  lag: number
}

/** Lists the exports of all projects. */
export function createListExports (deps: ExportDeps): ListWindowTasks {
  const { sql, metrics } = deps
  const shared = { ...deps, reading: createSemaphore({ limit: MAX_READING }), checked: new Set<number>() }
  const lag = metrics.gauge('export_lag_seconds',
    'Age of the end of the oldest window that an export has not written, by project and export; 0 while paused.', ['project', 'export'])

  return async function listExports () {
    const exports = await readExports(sql)
    lag.reset()
    for (const each of exports) lag.set({ project: String(each.projectId), export: String(each.id) }, each.lag)
    return exports.filter(({ paused, isRevised }) => !paused || isRevised).map((each) => toTask(each, shared))
  }
}

async function readExports (sql: Sql): Promise<ExportRow[]> {
  return await sql<ExportRow[]>`
    SELECT e.id, e.project_id AS "projectId", concat(e.project_id, '/', e.name, '-', e.key) AS folder, e.schedule, e.filter,
      coalesce(s.columns, '{}') AS columns, e.tables, e.target || jsonb_build_object('secret_access_key', e.secure_value) AS target, e.paused, e.created_at AS since,
      EXISTS (SELECT FROM export_windows AS w WHERE w.export_id = e.id AND w.written_at IS NULL)
        OR EXISTS (SELECT FROM export_erasures AS r WHERE r.export_id = e.id) AS "isRevised",
      CASE WHEN e.paused THEN 0 ELSE greatest(0, extract(epoch FROM now() - coalesce(t.done_through, date_trunc(e.schedule, e.created_at, 'UTC'))
        - ('1 ' || e.schedule)::interval))::float8 END AS lag
    FROM exports AS e LEFT JOIN window_tasks AS t ON t.subject = 'export:' || e.id
      LEFT JOIN export_state AS s ON s.export_id = e.id ORDER BY e.id`
}

function toTask (row: ExportRow, deps: SharedDeps): WindowTask {
  const { sql } = deps
  const { id, schedule: size, paused, since, tables, isRevised } = row
  async function run (window: TimeWindow, signal: AbortSignal): Promise<WindowEffects> {
    await sql`
      INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason)
      SELECT ${id}::integer, unnest(${tables}::text[]), ${window.from}::timestamptz, ${window.to}::timestamptz, 0, 'schedule'
      ON CONFLICT (export_id, table_name, window_from, revision) DO UPDATE SET reason = 'schedule' WHERE export_windows.written_at IS NULL`
    const through = await inTurn({ ...deps, signal }, async () => await planLateRows(deps, row))
    await writePlanned(row, deps, signal)
    return async (transaction) => await transaction`
      UPDATE export_state SET inserted_through = ${through} WHERE export_id = ${id}`
  }

  async function revise (signal: AbortSignal): Promise<undefined> {
    await planErasures(sql, id)
    await readInsertedThrough(deps, id)
    await writePlanned(row, deps, signal)
  }

  return { subject: `export:${id}`, size, since, run: paused ? undefined : run, beside: isRevised ? revise : undefined }
}

/** Copies of persons belong to the window in which their insert began, and one that runs may have begun in this one. */
async function waitForCopies (deps: ExportDeps, { to }: TimeWindow, signal: AbortSignal): Promise<void> {
  while (await findSettledMoment(deps) < to.getTime() + 1000) {
    await pause(1000, signal)
    signal.throwIfAborted()
  }
}

/**
 * Writes planned revisions in the order in which they were planned, but backfills only while no window is due. One that
 * was begun goes first: its manifest may have the next position in the chain already.
 */
async function writePlanned (row: ExportRow, deps: SharedDeps, signal: AbortSignal): Promise<void> {
  const { sql, clickhouse, checked, onStep } = deps
  const target = openTarget(row, deps)
  for (const table of row.tables) await requireLastManifest(table, row, { sql, target, signal })
  await clearScratch(target.scratch)
  if (!checked.has(row.id)) await recordUnknownManifests(row, { sql, target, signal })
  checked.add(row.id)
  for (;;) {
    signal.throwIfAborted()
    const through = await readCompleteThrough(clickhouse) ?? new Date(0)
    const [planned] = await sql<PlannedRevision[]>`
      SELECT id, table_name AS table, window_from AS from, window_to AS to, revision, reason, parts FROM export_windows AS w
      WHERE export_id = ${row.id} AND written_at IS NULL AND (sequence IS NULL OR window_to <= ${through}) AND NOT EXISTS (
        SELECT FROM export_windows AS o WHERE o.export_id = w.export_id AND o.table_name = w.table_name
          AND o.window_from = w.window_from AND o.revision < w.revision AND o.written_at IS NULL)
        AND (reason <> 'backfill' OR parts IS NOT NULL OR ${row.paused} OR NOT EXISTS (
          SELECT FROM window_tasks WHERE subject = ${`export:${row.id}`} AND done_through + ${`1 ${row.schedule}`}::interval <= ${through}))
      ORDER BY parts IS NULL, reason = 'backfill', id LIMIT 1`
    if (planned === undefined) return
    if (planned.table !== 'events') await waitForCopies(deps, planned, signal)
    await requireLastManifest(planned.table, row, { sql, target, signal })
    await writeRevision(planned, row, { ...deps, target, signal })
    await onStep?.('next')
  }
}

/** @throws when the target is a folder and this process has none. */
function openTarget ({ target }: ExportRow, { folder }: ExportDeps): ExportTarget {
  if (target.kind === 's3') return openS3Target(target)
  if (folder === '') throw new Error('this pipeline process has no folder for exports (MILLRACE_EXPORT_FOLDER)')
  return openFolderTarget(path.resolve(folder))
}
