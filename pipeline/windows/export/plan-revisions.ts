/** Which windows of an export are written again: those with erased persons, and those whose events came late. */
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { findSettledMoment } from '../../persons/deletion/event-removals.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { windowAt } from '../window-task.ts'
import { windowSql } from './export-tables.ts'
import { type ExportSettings, planRevision } from './write-revision.ts'

/** Plans the revisions that erasures ask for. They are found by the persons that were recorded of each file. */
export async function planErasures (sql: Sql, exportId: number): Promise<void> {
  const erasures = await sql<{ id: string, uuids: string[] }[]>`
    SELECT id, person_uuids::text[] AS uuids FROM export_erasures WHERE export_id = ${exportId}`
  if (erasures.length === 0) return
  const erased = new Set(erasures.flatMap(({ uuids }) => uuids.map((uuid) => Number.parseInt(uuid.slice(-8), 16))))
  for (let after = '0'; ;) {
    // One at a time: 4 bytes a person.
    const [window] = await sql<{ id: string, hashes: Buffer }[]>`
      SELECT id, person_hashes AS hashes FROM export_windows
      WHERE export_id = ${exportId} AND person_hashes <> '' AND id > ${after} ORDER BY id LIMIT 1`
    if (window === undefined) break
    if (hasAny(window.hashes, erased)) await planRevision(sql, window.id, 'erasure')
    after = window.id
  }
  await sql`DELETE FROM export_erasures WHERE id = ANY (${erasures.map(({ id }) => id)}::bigint[])`
}

function hasAny (hashes: Buffer, erased: ReadonlySet<number>): boolean {
  for (let at = 0; at < hashes.length; at += 4) if (erased.has(hashes.readUInt32LE(at))) return true
  return false
}

interface Stores { sql: Sql, clickhouse: ClickHouse, cluster: string }

/** Reads up to which insert late rows were looked for: at first up to now, before the first file is made. */
export async function readInsertedThrough (
  { sql, clickhouse, cluster }: Stores, exportId: number
): Promise<{ since: Date, through: number }> {
  const through = await findSettledMoment({ clickhouse, cluster })
  const [row] = await sql<[{ since: Date }]>`
    INSERT INTO export_state AS s (export_id, inserted_through) VALUES (${exportId}, ${new Date(through)})
    ON CONFLICT (export_id) DO UPDATE SET inserted_through = coalesce(s.inserted_through, excluded.inserted_through)
    RETURNING inserted_through AS since`
  return { since: row.since, through }
}

/**
 * Plans revisions of windows that were written before some of their events were stored: replayed dead letters keep
 * their time of receipt. Nothing else comes after the watermark. Windows that are planned and not yet written compare
 * their rows themselves.
 *
 * @returns the moment up to which rows were looked at.
 */
export async function planLateRows (stores: Stores, { id, projectId, schedule }: ExportSettings): Promise<Date> {
  const { sql, clickhouse } = stores
  const { since, through } = await readInsertedThrough(stores, id)
  // Index granules of the window that is written next, which has most of the new rows, are not read.
  const [{ end }] = await sql<[{ end: Date }]>`
    SELECT coalesce(max(window_to), 'epoch') AS "end" FROM export_windows
    WHERE export_id = ${id} AND table_name = 'events' AND written_at IS NOT NULL`
  const found = await queryRows<{ at: string }>(clickhouse, `
    SELECT DISTINCT toUnixTimestamp(toStartOfHour(received_at)) AS at FROM events
    WHERE project_id = {project: UInt32} AND received_at < fromUnixTimestamp64Milli({end: Int64})
      AND inserted_at >= fromUnixTimestamp64Milli({since: Int64}) AND inserted_at < fromUnixTimestamp64Milli({through: Int64})`,
  { project: projectId, since: since.getTime(), through, end: end.getTime() })
  const starts = new Set(found.map(({ at }) => windowAt(schedule, new Date(Number(at) * 1000)).from.getTime()))
  for (const start of starts) {
    const late = windowAt(schedule, new Date(start))
    const [written] = await sql<{ id: string, stored: number }[]>`
      SELECT id, (rows + left_out)::float8 AS stored FROM export_windows
      WHERE export_id = ${id} AND table_name = 'events' AND window_from = ${late.from} AND written_at IS NOT NULL
      ORDER BY revision DESC LIMIT 1`
    if (written === undefined) continue
    const [now] = await queryRows<{ count: string }>(clickhouse,
      `SELECT count() AS count FROM events WHERE ${windowSql('events', projectId, late)}`)
    if (Number(now?.count) !== written.stored) await planRevision(sql, written.id, 'late_rows')
  }
  return new Date(through)
}
