import { setTimeout as delay } from 'node:timers/promises'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import { postTombstones } from '../../platform/postgres/post-copies.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { findPersonByUuid } from './find-person.ts'

interface DeletedPerson { projectId: number, uuid: string, withEvents: boolean }

/** What an erasure names: the ids that were asked for, and all others of their persons. */
export interface ErasedPersons {
  projectId: number
  ids: string[]
  persons: { id: number, uuid: string }[]
  /** As in `events.person_id`, also of ids without a person. */
  uuids: string[]
}

/** Interval of asking whether the pipeline has finished, in milliseconds. */
const POLL_INTERVAL_MS = 200

/**
 * Deletes a person in Postgres, and waits while the pipeline deletes its rows in ClickHouse
 * (`pipeline/persons/deletion/`). Once this returns, the deletion is recorded and cannot be undone.
 *
 * @param person.uuid  As events or answers show it, also one from before a merge.
 * @param person.withEvents  Also delete the events received so far, of all its distinct ids.
 * @param deps.waitMs  Longest wait for the pipeline, in milliseconds; it goes on afterwards.
 * @returns whether ClickHouse has no row of the person any more; null when there is no such person.
 * @throws when Postgres is unavailable, or ClickHouse while it is needed to resolve an id from before a merge.
 */
export async function deletePerson (
  person: DeletedPerson, deps: { sql: Sql, clickhouse: ClickHouse, waitMs: number }
): Promise<{ uuid: string, isDone: boolean } | null> {
  const { sql, waitMs } = deps
  const uuid = await findPersonByUuid(deps, person.projectId, person.uuid)
  const id = uuid === null ? null : await recordDeletion(sql, { ...person, uuid })
  return uuid === null || id === null ? null : { uuid, isDone: await waitForDeletion(sql, id, waitMs) !== null }
}

/** When the pipeline had finished a deletion; null: it goes on. */
export async function waitForDeletion (sql: Sql, id: number, waitMs: number): Promise<Date | null> {
  for (const deadline = performance.now() + waitMs; ; await delay(POLL_INTERVAL_MS)) {
    const [deletion] = await sql<{ at: Date | null }[]>`SELECT done_at AS at FROM person_deletions WHERE id = ${id}`
    if (deletion?.at != null || performance.now() > deadline) return deletion?.at ?? null
  }
}

/**
 * Deletes a person in Postgres and records what is to be deleted in ClickHouse.
 *
 * @param person.uuid  The person's current uuid; see `findPersonByUuid`.
 * @returns the id of the record; null when there is no such person.
 */
async function recordDeletion (sql: Sql, { projectId, uuid, withEvents }: DeletedPerson): Promise<number | null> {
  return await sql.begin(async (transaction) => {
    const version = (await lockPersons(transaction, [projectId])).get(projectId)
    const [found] = await transaction<{ id: number, uuid: string }[]>`
      SELECT id, uuid FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid} FOR UPDATE`
    if (version === undefined || found === undefined) return null

    const known = await transaction<{ id: string }[]>`SELECT distinct_id AS id FROM person_distinct_ids WHERE person_id = ${found.id}`
    const ids = known.map(({ id }) => id)
    const uuids = [...new Set([uuid, ...ids.map((id) => personUuid(projectId, id))])]
    await removePersons(transaction, { projectId, ids, persons: [found], uuids }, version)
    const [deletion] = await transaction<[{ id: number }]>`
      INSERT INTO person_deletions (project_id, person_uuid, person_uuids, with_events, version, outbox_id)
      VALUES (${projectId}, ${uuid}, ${uuids}::uuid[], ${withEvents}, ${version},
        (SELECT coalesce(max(id), 0) FROM persons_outbox))
      RETURNING id`
    return deletion.id
  })
}

/** Deletes persons with their distinct ids, hash keys of flags, memberships of cohorts, and what else names the ids. */
export async function removePersons (
  transaction: TransactionSql, { projectId, ids, persons, uuids }: ErasedPersons, version: number
): Promise<void> {
  await transaction`DELETE FROM persons WHERE id = ANY (${persons.map(({ id }) => id)}::bigint[])`
  await postTombstones(transaction, { projectId, uuids: persons.map(({ uuid }) => uuid), version })
  await transaction`DELETE FROM flag_hash_keys WHERE project_id = ${projectId} AND distinct_id = ANY (${ids})`
  await transaction`DELETE FROM person_repairs WHERE project_id = ${projectId} AND distinct_ids && ${ids}`
  await clearSamples(transaction, projectId, ids)
  await transaction`
    DELETE FROM cohort_people WHERE cohort_id IN (SELECT id FROM cohorts WHERE project_id = ${projectId}) AND person = ANY (${uuids}::uuid[])`
}

/** Removes the samples of warnings that name distinct ids. */
export async function clearSamples (
  transaction: TransactionSql, projectId: number, distinctIds: readonly string[]
): Promise<void> {
  await transaction`
    UPDATE persons_warning_minutes SET samples = '[]' WHERE project_id = ${projectId} AND EXISTS (
      SELECT FROM jsonb_array_elements(samples) AS sample
      WHERE sample->>'distinct_id' = ANY (${[...distinctIds]}) OR sample->>'value' = ANY (${[...distinctIds]}))`
}
