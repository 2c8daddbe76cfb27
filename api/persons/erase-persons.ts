/** Erases everything of distinct ids, with or without a person, and records the erasure without naming them. */
import { randomBytes } from 'node:crypto'
import { isFields } from '../../engines/fields.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { decodeContent, scanDeadLetters } from '../../platform/dead-letters/read-dead-letters.ts'
import { purgeDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import { type ErasureRow, hashErasedId } from '../../schema/wire/erased-ids.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { deleteDistinctIds, forgetDistinctIds, postTombstone } from './delete-person.ts'

export interface EraseDeps {
  sql: Sql
  clickhouse: ClickHouse
}

/** What an erasure names: the ids that were asked for, and all others of their persons. */
export interface ErasedPersons {
  projectId: number
  ids: string[]
  persons: { id: number, uuid: string }[]
  /** As in `events.person_id`, also of ids without a person. */
  uuids: string[]
}

export interface Found { where: string, count: number }

export async function findErased (
  sql: Sql | TransactionSql, projectId: number, asked: readonly string[]
): Promise<ErasedPersons> {
  const persons = await sql<{ id: number, uuid: string }[]>`
    SELECT id, uuid FROM persons WHERE id IN (
      SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND distinct_id = ANY (${[...asked]}))`
  const known = await sql<{ id: string }[]>`
    SELECT distinct_id AS id FROM person_distinct_ids WHERE person_id = ANY (${persons.map(({ id }) => id)}::bigint[])`
  const ids = [...new Set([...asked, ...known.map(({ id }) => id)])]
  const uuids = [...new Set([...persons.map(({ uuid }) => uuid), ...ids.map((id) => personUuid(projectId, id))])]
  return { projectId, ids, persons, uuids }
}

/** Counts what both stores have of these ids. */
export async function countErased (
  { sql, clickhouse }: EraseDeps, { projectId, ids, persons, uuids }: ErasedPersons
): Promise<Found[]> {
  const rowIds = persons.map(({ id }) => id)
  const [counts] = await sql<[Record<string, number>]>`
    SELECT ${persons.length}::int AS persons,
      (SELECT count(*)::int FROM person_distinct_ids WHERE person_id = ANY (${rowIds}::bigint[])) AS distinct_ids,
      (SELECT count(*)::int FROM cohort_members WHERE person_id = ANY (${rowIds}::bigint[])) AS cohort_memberships,
      (SELECT count(*)::int FROM flag_hash_keys WHERE project_id = ${projectId} AND distinct_id = ANY (${ids})) AS flag_hash_keys,
      (SELECT count(*)::int FROM person_repairs WHERE project_id = ${projectId} AND distinct_ids && ${ids}) AS person_repairs,
      (SELECT count(*)::int FROM groups WHERE project_id = ${projectId} AND group_key = ANY (${ids})) AS groups,
      (SELECT count(*)::int FROM notifications JOIN targets AS t ON t.id = target_id WHERE t.project_id = ${projectId} AND EXISTS (
        SELECT FROM unnest(${ids.map((id) => `"distinct_id":${JSON.stringify(id)}`)}::text[]) AS named WHERE strpos(data, named) > 0)) AS notifications`
  const [stored] = await queryRows<{ events: string, samples: string }>(clickhouse, `
    SELECT (SELECT count() FROM events WHERE project_id = {project: UInt32} AND person_id IN {uuids: Array(UUID)} SETTINGS final = 1) AS events,
      (SELECT count() FROM ingestion_warnings_by_source WHERE project_id = {project: UInt32}
        AND (hasAny(samples.distinct_id, {ids: Array(String)}) OR hasAny(samples.value, {ids: Array(String)}))) AS samples`,
  { project: projectId, uuids, ids })
  return [
    { where: 'events', count: Number(stored?.events) }, { where: 'warning_samples', count: Number(stored?.samples) },
    ...Object.entries(counts).map(([where, count]) => ({ where, count }))
  ]
}

/**
 * Deletes them in Postgres and records the erasure; the pipeline deletes the rest. What was on its way is left out by
 * the record.
 *
 * @param again  The record, of an erasure that a restored backup does not have.
 * @returns the id of the record; null when the project does not exist.
 */
export async function recordErasure (
  sql: Sql, projectId: number, asked: readonly string[], found: readonly Found[], again?: ErasureRow
): Promise<{ id: number, deletion: number } | null> {
  return await sql.begin(async (transaction) => {
    const version = (await lockPersons(transaction, [projectId])).get(projectId)
    if (version === undefined) return null
    // Under the lock, as a merge may have come between.
    const { ids, persons, uuids } = await findErased(transaction, projectId, asked)
    for (const { id, uuid } of persons) {
      await deleteDistinctIds(transaction, projectId, id)
      await transaction`DELETE FROM persons WHERE id = ${id}`
      await postTombstone(transaction, { projectId, uuid, version })
    }
    await forgetDistinctIds(transaction, projectId, ids)
    const requestedAt = again?.requested_at ?? null
    await transaction`DELETE FROM groups WHERE project_id = ${projectId} AND group_key = ANY (${ids})`
    const [deletion] = await transaction<[{ id: number }]>`
      INSERT INTO person_deletions (project_id, person_uuid, person_uuids, with_events, is_erasure, requested_at, version, outbox_id)
      VALUES (${projectId}, ${uuids[0] ?? personUuid(projectId, '')}, ${uuids}::uuid[], true, true, coalesce(${requestedAt}, now()), ${version},
        (SELECT coalesce(max(id), 0) FROM persons_outbox))
      RETURNING id`
    const [{ salt }] = await transaction<[{ salt: string }]>`
      SELECT coalesce((SELECT salt FROM erasures LIMIT 1), ${again?.salt ?? randomBytes(16).toString('hex')}) AS salt`
    const hashes = [...new Set([...again?.hashes ?? [], ...ids.map((id) => hashErasedId(salt, projectId, id))])]
    const [erasure] = await transaction<[{ id: number }]>`
      INSERT INTO erasures (project_id, salt, hashes, requested_at, deletion_id, found)
      VALUES (${projectId}, ${salt}, ${hashes}, coalesce(${requestedAt}, now()), ${deletion.id},
        ${sql.json([...found])}::jsonb) RETURNING id`
    await transaction`
      UPDATE persons_projects SET erased_at = greatest(erased_at, coalesce(${requestedAt}, now())) WHERE project_id = ${projectId}`
    return { id: erasure.id, deletion: deletion.id }
  })
}

/**
 * Removes the dead letters that have nothing of anybody else.
 *
 * @returns how many there were, and the ids of those that also have events of others.
 */
export async function eraseLetters (
  connection: NatsConnection, { projectId, ids }: Pick<ErasedPersons, 'projectId' | 'ids'>, dryRun: boolean
): Promise<{ count: number, shared: number[] }> {
  const texts = ids.map((id) => JSON.stringify(id))
  const own: number[] = []
  const shared: number[] = []
  for await (const { letter, body } of scanDeadLetters(connection, { project: projectId, withBodies: true })) {
    const content = await decodeContent(body, letter.rows)
    // The data of a notification is JSON within a text.
    const data = isFields(content) && typeof content.data === 'string' ? content.data : ''
    const text = content === null ? Buffer.from(body).toString('latin1') : JSON.stringify(content) + data
    if (content === null ? !ids.some((id) => text.includes(id)) : !texts.some((each) => text.includes(each))) continue
    const isOwn = (item: unknown): boolean =>
      isFields(item) && ids.includes(String(item.distinct_id ?? item.distinctId))
    const list = Array.isArray(content) && !content.every(isOwn) ? shared : own
    list.push(letter.id)
  }
  if (!dryRun) for (const id of own) await purgeDeadLetters(connection, { id })
  return { count: own.length, shared }
}
