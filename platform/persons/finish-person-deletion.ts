import { setTimeout as delay } from 'node:timers/promises'
import { type Sql } from '../postgres/connect-postgres.ts'
import { onCluster, onEachReplica, onEachShard } from '../clickhouse/cluster-sql.ts'
import { type ClickHouse } from '../clickhouse/connect-clickhouse.ts'
import { drainPersonsOutbox } from './persons-outbox.ts'

/** A deletion of a person, begun and perhaps not finished. */
export interface PersonDeletion {
  id: number
  projectId: number
  /** The person's uuid, and those computed from its distinct ids. */
  personUuids: string[]
  withEvents: boolean
  requestedAt: Date
  version: number
  outboxId: number
  doneAt: Date | null
}

/** The columns of a `PersonDeletion`, for a query on `person_deletions`. */
export function selectDeletion (sql: Sql) {
  return sql`id, project_id AS "projectId", person_uuids AS "personUuids", with_events AS "withEvents",
    requested_at AS "requestedAt", version, outbox_id AS "outboxId", done_at AS "doneAt"`
}

/** Uuids of one statement: they travel in its URL, which servers bound at a megabyte. */
const CHUNK_UUIDS = 1000

const LOOK_AGAIN_MS = 200

export interface FinishDeletionDeps {
  sql: Sql
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster?: string
  /** Gives up waiting for ClickHouse after this long, in milliseconds; the deletion goes on there. */
  waitMs: number
}

/** How far a deletion has come. */
export interface DeletionProgress {
  /** ClickHouse holds nothing of the person any more. */
  isDone: boolean
  /** Events that were found and ordered to be deleted. */
  events: number
}

/**
 * Deletes what ClickHouse holds of a deleted person: the copies and, if that was asked, all events that were received
 * before the deletion was requested, whatever distinct id of the person they have. Rows go, not only their visibility.
 *
 * Says done only after it has counted that nothing is left. Safe to call again, and by several processes at once.
 *
 * @throws when Postgres or ClickHouse does not answer; the deletion stays recorded.
 */
export async function finishPersonDeletion (
  deletion: PersonDeletion, deps: FinishDeletionDeps
): Promise<DeletionProgress> {
  const deadline = performance.now() + deps.waitMs
  const isLate = (): boolean => performance.now() > deadline
  if (!await copiesHaveLeft(deletion, deps, isLate)) return { isDone: false, events: 0 }

  let events = 0
  for (const work of listWork(deletion)) {
    let left = await countRows(deletion, deps, work, onEachReplica)
    if (left === 0) continue
    if (work.table === 'events') events = await countRows(deletion, deps, work, onEachShard)
    await orderDelete(deletion, deps, work)
    while (left > 0 && !isLate()) {
      await delay(LOOK_AGAIN_MS)
      left = await countRows(deletion, deps, work, onEachReplica)
    }
    if (left > 0) return { isDone: false, events }
  }
  await deps.sql`UPDATE person_deletions SET done_at = coalesce(done_at, now()) WHERE id = ${deletion.id}`
  return { isDone: true, events }
}

/**
 * Copies from before the deletion must have arrived before rows are deleted: one that another process has in hand
 * would appear again afterwards.
 */
async function copiesHaveLeft (
  deletion: PersonDeletion, { sql, clickhouse }: FinishDeletionDeps, isLate: () => boolean
): Promise<boolean> {
  for (;;) {
    await drainPersonsOutbox({ sql, clickhouse })
    const waiting = await sql`
      SELECT 1 FROM persons_outbox WHERE id <= ${deletion.outboxId} AND refused IS NULL LIMIT 1`
    if (waiting.length === 0) return true
    if (isLate()) return false
    await delay(LOOK_AGAIN_MS)
  }
}

interface Work {
  table: string
  /** On parameters `project`, `uuids`, `version` and `requested`. */
  where: string
}

function listWork ({ withEvents }: PersonDeletion): Work[] {
  const copies = 'project_id = {project: UInt32} AND version <= {version: UInt64}'
  const work = [
    { table: 'persons', where: `${copies} AND person_id IN {uuids: Array(UUID)}` },
    { table: 'person_distinct_ids', where: `${copies} AND person_id IN {uuids: Array(UUID)}` },
    {
      table: 'person_overrides',
      where: `${copies} AND (person_id IN {uuids: Array(UUID)} OR old_person_id IN {uuids: Array(UUID)})`
    }
  ]
  if (!withEvents) return work
  return [...work, {
    table: 'events',
    where: `project_id = {project: UInt32} AND person_id IN {uuids: Array(UUID)}
      AND received_at <= fromUnixTimestamp64Milli({requested: Int64})`
  }]
}

async function countRows (
  deletion: PersonDeletion, { clickhouse, cluster = '' }: FinishDeletionDeps, { table, where }: Work,
  everywhere: typeof onEachReplica
): Promise<number> {
  let count = 0
  for (const params of toParams(deletion)) {
    const result = await clickhouse.query({
      // Not `final`: rows that it would hide are there, too.
      query: `SELECT count() AS count FROM ${everywhere(cluster, table)} WHERE ${where} SETTINGS final = 0`,
      query_params: params,
      format: 'JSONEachRow'
    })
    const [row] = await result.json<{ count: string }>()
    count += Number(row?.count)
  }
  return count
}

/** A mutation: it runs in the background and rewrites the parts that hold such rows. */
async function orderDelete (
  deletion: PersonDeletion, { clickhouse, cluster = '' }: FinishDeletionDeps, { table, where }: Work
): Promise<void> {
  for (const params of toParams(deletion)) {
    await clickhouse.command({
      query: `ALTER TABLE ${table} ${onCluster(cluster)} DELETE WHERE ${where}`,
      query_params: params,
      clickhouse_settings: { mutations_sync: '0' }
    })
  }
}

function * toParams (deletion: PersonDeletion): Generator<Record<string, unknown>> {
  const { projectId: project, personUuids, version, requestedAt } = deletion
  for (let i = 0; i < personUuids.length; i += CHUNK_UUIDS) {
    yield { project, version, requested: requestedAt.getTime(), uuids: personUuids.slice(i, i + CHUNK_UUIDS) }
  }
}
