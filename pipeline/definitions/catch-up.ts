/** Projects whose definitions are read in slices, so that one with many names delays only its own. */
import type { SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import {
  type DefinitionLimits, pruneDefinitions, ROLL_UP_SOURCES, type RollUpSpan, type RollUpStores, type RowKey, rollUpPage,
  ROWS_PER_PAGE
} from './roll-up-source.ts'

/** Full pages of one project in a round: a second or so. */
const PAGES_PER_SLICE = 3

/** How long a round reads slices, in milliseconds; at least one is read. */
const SLICES_MS = 5000

/** Pause between two passes through a project: rounds overlap, so that the next one reads most of it again. */
const REST_SECONDS = 30

interface Behind {
  project_id: number
  since_ms: number
  is_sweep: boolean
  source: number
  after_key: RowKey | null
  again_since: Date | null
}

/** Notes that a project has more changes than one round reads; its definitions are as fresh as the round before. */
export async function fallBehind (
  sql: SqlTemplates, projectIds: readonly number[], { since, asOf }: { since: number, asOf: number }
): Promise<void> {
  await sql`
    INSERT INTO roll_up_behind AS behind (project_id, since, is_sweep, as_of, complete_through)
    SELECT id, ${new Date(since)}, false, ${new Date(asOf)}, (SELECT read_up_to FROM roll_up_state WHERE source = 'complete through')
    FROM projects WHERE id = ANY(${[...projectIds]}::integer[])
    ON CONFLICT (project_id) DO UPDATE SET again_since = least(behind.again_since, excluded.since),
      as_of = coalesce(behind.as_of, excluded.as_of), complete_through = coalesce(behind.complete_through, excluded.complete_through)`
}

/** Has everything read again, of each project. */
export async function beginSweep (sql: SqlTemplates, since: number): Promise<void> {
  await sql`
    INSERT INTO roll_up_behind AS behind (project_id, since, is_sweep) SELECT id, ${new Date(since)}, true FROM projects
    ON CONFLICT (project_id) DO UPDATE SET again_since = excluded.since`
  await sql`DELETE FROM definition_days WHERE day < (now() AT TIME ZONE 'UTC')::date - 7`
}

/**
 * Reads a slice of each project that is behind, those that waited longest first, for some seconds.
 *
 * @returns how many definitions were read, and which projects have new ones beyond the limits.
 */
export async function catchUp (
  stores: RollUpStores, span: Pick<RollUpSpan, 'nowMs' | 'today' | 'clockLeadMs'>, limits: DefinitionLimits
): Promise<{ rows: number, beyond: number[] }> {
  const { sql } = stores
  const behind = await sql<Behind[]>`
    SELECT project_id, (extract(epoch FROM since) * 1000)::float8 AS since_ms, is_sweep, source, after_key, again_since
    FROM roll_up_behind WHERE rests_until IS NULL OR rests_until < clock_timestamp() ORDER BY served_at NULLS FIRST, project_id`
  const startedAt = performance.now()
  const caughtUp: { rows: number, beyond: number[] } = { rows: 0, beyond: [] }
  for (const each of behind) {
    const all = { ...span, since: each.since_ms, project: each.project_id, except: [] }
    const slice = await readSlice(each, all, { stores, limits })
    caughtUp.rows += slice.rows
    caughtUp.beyond.push(...slice.beyond)
    if (slice.source < ROLL_UP_SOURCES.length) {
      await sql`UPDATE roll_up_behind SET source = ${slice.source}, after_key = ${slice.after === null ? null : sql.json(slice.after)},
        rests_until = NULL, served_at = clock_timestamp() WHERE project_id = ${each.project_id}`
    } else await finishPass(sql, each, limits)
    if (performance.now() - startedAt > SLICES_MS) break
  }
  return caughtUp
}

async function readSlice (
  { source, after_key: after }: Behind, span: RollUpSpan,
  { stores, limits }: { stores: RollUpStores, limits: DefinitionLimits }
): Promise<{ source: number, after: RowKey | null, rows: number, beyond: number[] }> {
  const slice = { source, after, rows: 0, beyond: [] as number[] }
  while (slice.rows < PAGES_PER_SLICE * ROWS_PER_PAGE) {
    const read = ROLL_UP_SOURCES[slice.source]
    if (read === undefined) break
    const page = await rollUpPage({ source: read, after: slice.after, span, limits }, stores)
    slice.rows += page.rows
    slice.beyond.push(...page.beyond)
    slice.after = page.next
    if (page.next === null) slice.source++
  }
  return slice
}

async function finishPass (sql: SqlTemplates, pass: Behind, limits: DefinitionLimits): Promise<void> {
  if (pass.is_sweep) await pruneDefinitions(sql, pass.project_id, limits)
  if (pass.again_since === null) {
    await sql`DELETE FROM roll_up_behind WHERE project_id = ${pass.project_id}`
    return
  }
  // What makes it due again may be the next sweep, or changes of before it.
  await sql`UPDATE roll_up_behind SET since = again_since, is_sweep = again_since < now() - interval '1 day', again_since = NULL,
    source = 0, after_key = NULL, as_of = CASE WHEN as_of IS NOT NULL THEN greatest(as_of, again_since) END,
    rests_until = clock_timestamp() + ${REST_SECONDS} * interval '1 second', served_at = clock_timestamp()
    WHERE project_id = ${pass.project_id}`
}
