/** Removes events so that the books know of each of them. */
import { LEDGER_TABLE } from '../../../schema/wire/ledger.ts'
import { type ClickHouse, onCluster, onEachReplica, onEachShard, PAST_USER_VIEWS, queryRows, systemTable } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { waitForReplicas } from '../../../platform/clickhouse/wait-for-replicas.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { type Condition, type ErasedEvents, erasedConditions } from '../../../schema/wire/erased-ids.ts'

/**
 * Removes:
 *
 * - `person`: events of these persons that were received up to a time, epoch milliseconds.
 * - `filter`: the same of the events of an erasure.
 * - `days`: events of these projects from before a day, `YYYY-MM-DD`.
 * - `month`: events of a month, `YYYYMM`.
 */
export type RemovedEvents =
  | { kind: 'person', params: { project: number, uuids: string[], requested: number } }
  | { kind: 'filter', params: { project: number, filter: ErasedEvents, requested: number } }
  | { kind: 'days', params: { ids: number[], before: string } }
  | { kind: 'month', params: { month: number } }

/** A removal under way. */
export type EventRemoval = RemovedEvents & {
  id: number
  /** Events inserted before this time, epoch milliseconds: no insert adds any to them. */
  until: number
}

export interface RemovalDeps {
  sql: Sql
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster?: string
}

/** Any number, the same in every version: the advisory lock under which a removal begins. */
const REMOVALS_LOCK = 4_725_374

/**
 * Begins a removal, or finds the one that was begun under this subject.
 *
 * A removal counts its events before it removes them, so no other one may remove some of them meanwhile.
 *
 * @param subject  What it is for. One removal at a time.
 * @returns null while another removal may take the same events: try again later.
 * @throws when Postgres or ClickHouse does not answer.
 */
export async function beginRemoval (
  deps: RemovalDeps, subject: string, events: RemovedEvents
): Promise<EventRemoval | null> {
  const until = await findSettledMoment(deps)
  return await deps.sql.begin(async (transaction) => {
    await transaction`SELECT pg_advisory_xact_lock(${REMOVALS_LOCK})`
    const open = await transaction<(EventRemoval & { subject: string })[]>`
      SELECT id, subject, kind, params, until_ms AS until FROM event_removals`
    const own = open.find((each) => each.subject === subject)
    if (own !== undefined) return own
    if (open.some((each) => mayOverlap(each, events))) return null
    const [begun] = await transaction<[EventRemoval]>`
      INSERT INTO event_removals (subject, kind, params, until_ms)
      VALUES (${subject}, ${events.kind}, ${deps.sql.json(events.params)}::jsonb, ${until})
      RETURNING id, kind, params, until_ms AS until`
    return begun
  })
}

/** Removals that were begun by retention. */
export async function listRetentionRemovals (sql: Sql): Promise<EventRemoval[]> {
  return await sql<EventRemoval[]>`
    SELECT id, kind, params, until_ms AS until FROM event_removals WHERE kind IN ('days', 'month') ORDER BY id`
}

/** Whether a removal was begun under this subject and is not complete. */
export async function isRemovalOpen (sql: Sql, subject: string): Promise<boolean> {
  return (await sql`SELECT 1 FROM event_removals WHERE subject = ${subject}`).length > 0
}

function mayOverlap (a: RemovedEvents, b: RemovedEvents): boolean {
  if ('project' in a.params && 'project' in b.params && a.params.project !== b.params.project) return false
  if (a.kind === 'filter' || b.kind === 'filter') return true
  if (a.kind !== 'person' || b.kind !== 'person') return a.kind === 'person' || b.kind === 'person' || a.kind !== b.kind
  return a.params.uuids.some((uuid) => b.params.uuids.includes(uuid))
}

/**
 * Counts the events of a removal in the ledger as being removed. To be called before any of them is. Safe to repeat:
 * later counts are smaller, and the ledger keeps the highest.
 *
 * @param isReplaced  Each event is stored again, with other ids.
 * @returns the number of events.
 */
export async function announceRemoval (deps: RemovalDeps, removal: EventRemoval, isReplaced = false): Promise<number> {
  const { clickhouse, cluster = '' } = deps
  await waitForReplicas({ clickhouse, cluster })
  for (const [index, { where, params }] of conditionsOf(removal).entries()) {
    await clickhouse.command({
      query: `INSERT INTO ${LEDGER_TABLE} (project_id, minute, source, deletions_begun, replayed)
        SELECT project_id, toStartOfMinute(received_at) AS minute, {source: String} AS source, count() AS events, ${isReplaced ? 'events' : '0'}
        FROM ${onEachShard(cluster, 'events')} WHERE ${where} GROUP BY project_id, minute SETTINGS final = 0`,
      query_params: { ...params, source: `${sourceOf(removal)}${index}` }, clickhouse_settings: PAST_USER_VIEWS
    })
  }
  return await countRemaining(deps, removal)
}

/** All events of a removal that was not begun, whenever they were inserted. */
export function allOf (events: RemovedEvents): EventRemoval {
  return { ...events, id: 0, until: Date.UTC(2299, 0) }
}

/** Events of the removal that are still there. */
export async function countRemaining (
  deps: RemovalDeps, removal: EventRemoval, everywhere = onEachShard
): Promise<number> {
  return await countRows(deps, everywhere, 'events', conditionsOf(removal))
}

/** Rows of a table that fulfil one of the conditions, superseded ones included. */
export async function countRows (
  { clickhouse, cluster = '' }: RemovalDeps, everywhere: typeof onEachShard, table: string, conditions: readonly Condition[]
): Promise<number> {
  let count = 0
  for (const { where, params } of conditions) {
    const [row] = await queryRows<{ count: string }>(clickhouse,
      `SELECT count() AS count FROM ${everywhere(cluster, table)} WHERE ${where} SETTINGS final = 0`, params)
    count += Number(row?.count)
  }
  return count
}

/**
 * Starts to delete the events of a removal; ClickHouse goes on with it after this returns.
 *
 * @param how.marks  Only mark them, and leave the rewriting of parts to later merges.
 */
export async function startRemoval (
  deps: RemovalDeps, removal: EventRemoval, { marks }: { marks: boolean }
): Promise<void> {
  const nodes = onCluster(deps.cluster ?? '')
  const statement = marks ? `DELETE FROM events ${nodes}` : `ALTER TABLE events ${nodes} DELETE`
  await startMutations(deps, { table: 'events', name: sourceOf(removal), statement }, conditionsOf(removal))
}

/**
 * Starts a mutation for each condition, unless ClickHouse is still busy with the same: each further one makes it
 * rewrite every part again, and with many parts none would ever end.
 *
 * @param mutation.name  With the index of a condition, names a mutation among those of its table.
 */
export async function startMutations (
  { clickhouse, cluster = '' }: RemovalDeps,
  { table, name, statement }: { table: string, name: string, statement: string }, conditions: readonly Condition[]
): Promise<void> {
  for (const [index, { where, params }] of conditions.entries()) {
    const mark = `${name}${index}:`
    const running = await queryRows(clickhouse, `
      SELECT 1 FROM ${systemTable(cluster, 'mutations')}
      WHERE database = currentDatabase() AND table = {table: String} AND NOT is_done AND position(command, {mark: String}) > 0
      LIMIT 1`, { table, mark })
    if (running.length > 0) continue
    // One that has ended since the caller counted removed these rows.
    const left = await queryRows(clickhouse,
      `SELECT 1 FROM ${onEachReplica(cluster, table)} WHERE ${where} LIMIT 1 SETTINGS final = 0`, params)
    if (left.length === 0) continue
    await clickhouse.command({
      query: `${statement} WHERE (${where}) AND {mark: String} != ''`,
      query_params: { ...params, mark },
      clickhouse_settings: { mutations_sync: '0', lightweight_deletes_sync: '0' }
    })
  }
}

/**
 * Completes a removal if none of its events is left: from now on the books know that they are gone.
 *
 * @returns whether it is complete.
 */
export async function completeRemoval (deps: RemovalDeps, removal: EventRemoval): Promise<boolean> {
  if (await countRemaining(deps, removal, onEachReplica) > 0) return false
  const { clickhouse, cluster = '' } = deps
  await clickhouse.command({
    query: `INSERT INTO ${LEDGER_TABLE} (project_id, minute, source, deletions_done)
      SELECT project_id, minute, source, max(deletions_begun)
      FROM ${onEachShard(cluster, LEDGER_TABLE)} WHERE startsWith(source, {source: String})
      GROUP BY project_id, minute, source SETTINGS final = 0`,
    query_params: { source: sourceOf(removal) }, clickhouse_settings: PAST_USER_VIEWS
  })
  await deps.sql`DELETE FROM event_removals WHERE id = ${removal.id}`
  return true
}

/** Its name in books and tokens, before a condition's index; with the time, as a restored Postgres repeats ids. */
export function sourceOf ({ id, until }: EventRemoval): string {
  return `removal:${id}:${until}:`
}

/** Conditions of which each event fulfils one at most. */
export function conditionsOf (removal: EventRemoval): Condition[] {
  const until = { until: removal.until }
  const isOld = 'inserted_at < fromUnixTimestamp64Milli({until: Int64})'
  switch (removal.kind) {
    case 'days':
      // By the key of the table, so that only the granules in question are read.
      return [{
        where: `project_id IN {ids: Array(UInt32)} AND toDate(timestamp) < {before: Date} AND ${isOld}`,
        params: { ...removal.params, ...until }
      }]
    case 'month':
      return [{ where: `toYYYYMM(timestamp) = {month: UInt32} AND ${isOld}`, params: { ...removal.params, ...until } }]
    case 'filter':
    case 'person': {
      const { project, requested } = removal.params
      const filter = removal.kind === 'filter' ? removal.params.filter : { salt: '', persons: removal.params.uuids }
      return erasedConditions(filter, project).map(({ where, params }) => ({
        where: `${where} AND received_at <= fromUnixTimestamp64Milli({requested: Int64}) AND ${isOld}`,
        params: { ...params, requested, ...until }
      }))
    }
  }
}

/** Clocks of the nodes of a cluster differ by less than this, in milliseconds. */
const CLUSTER_MARGIN_MS = 1000

/**
 * A time before which no further row can appear: `inserted_at` is the start of an insert, so it is now or the start of
 * the oldest insert that runs.
 */
export async function findSettledMoment (
  { clickhouse, cluster = '' }: Pick<RemovalDeps, 'clickhouse' | 'cluster'>
): Promise<number> {
  const [row] = await queryRows<{ now: string, elapsed: number }>(clickhouse, `
    SELECT toUnixTimestamp64Milli(now64(3)) AS now, max(elapsed) AS elapsed FROM ${systemTable(cluster, 'processes')}
    WHERE query_kind IN ('Insert', 'AsyncInsertFlush')`)
  const runsForMs = Number(row?.elapsed ?? 0) * 1000
  const marginMs = (runsForMs > 0 ? 1 : 0) + (cluster === '' ? 0 : CLUSTER_MARGIN_MS)
  return Math.floor(Number(row?.now) - runsForMs - marginMs)
}
