/** Which windows of an export are written again: those with erased persons, and those whose events came late. */
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { findSettledMoment } from '../../persons/deletion/event-removals.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { type TimeWindow, windowAt } from '../window-task.ts'
import { windowSql } from './export-tables.ts'
import { type ExportSettings, planRevision } from './write-revision.ts'

/** Windows whose persons are in memory at once: 4 bytes a person. */
const BATCH_WINDOWS = 50

/** Plans the revisions that erasures ask for. They are found by the persons that were recorded of each file. */
export async function planErasures (sql: Sql, exportId: number): Promise<void> {
  const erasures = await sql<{ id: string, uuids: string[] }[]>`
    SELECT id, person_uuids::text[] AS uuids FROM export_erasures WHERE export_id = ${exportId}`
  if (erasures.length === 0) return
  const erased = new Set(erasures.flatMap(({ uuids }) => uuids.map((uuid) => Number.parseInt(uuid.slice(-8), 16))))
  for (let after = '0'; ;) {
    const windows = await sql<{ id: string, hashes: Buffer }[]>`
      SELECT id, person_hashes AS hashes FROM export_windows
      WHERE export_id = ${exportId} AND person_hashes <> '' AND id > ${after} ORDER BY id LIMIT ${BATCH_WINDOWS}`
    for (const { id, hashes } of windows) if (hasAny(hashes, erased)) await planRevision(sql, id, 'erasure')
    const last = windows.at(-1)
    if (last === undefined) break
    after = last.id
  }
  await sql`DELETE FROM export_erasures WHERE id = ANY (${erasures.map(({ id }) => id)}::bigint[])`
}

function hasAny (hashes: Buffer, erased: ReadonlySet<number>): boolean {
  for (let at = 0; at < hashes.length; at += 4) if (erased.has(hashes.readUInt32LE(at))) return true
  return false
}

/**
 * Plans revisions of windows that were written before some of their events were stored: replayed dead letters keep
 * their time of receipt. Nothing else comes after the watermark.
 *
 * @returns the moment up to which rows were looked at.
 */
export async function planLateRows (
  { sql, clickhouse, cluster }: { sql: Sql, clickhouse: ClickHouse, cluster: string },
  { id, projectId, schedule }: ExportSettings, window: TimeWindow
): Promise<Date> {
  const [row] = await sql<{ since: Date | null }[]>`SELECT inserted_through AS since FROM export_state WHERE export_id = ${id}`
  const through = await findSettledMoment({ clickhouse, cluster })
  if (row?.since == null) return new Date(through)
  const found = await queryRows<{ at: string }>(clickhouse, `
    SELECT DISTINCT toUnixTimestamp(toStartOfHour(received_at)) AS at FROM events
    WHERE project_id = {project: UInt32} AND received_at < fromUnixTimestamp64Milli({from: Int64})
      AND inserted_at >= fromUnixTimestamp64Milli({since: Int64}) AND inserted_at < fromUnixTimestamp64Milli({through: Int64})`,
  { project: projectId, from: window.from.getTime(), since: row.since.getTime(), through })
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
