import type { Logger } from '../../platform/logger.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { type DeletionProgress, type FinishDeletionDeps, finishPersonDeletion, type PersonDeletion, selectDeletion } from '../../platform/persons/finish-person-deletion.ts'
import { findPersonByUuid, lockPersons, personUuid } from '../../platform/persons/person-ids.ts'
import { noCopies, postCopies, toCopyTime } from '../../platform/persons/persons-outbox.ts'

export interface DeletePersonRequest {
  projectId: number
  /** The person's id as events or answers show it, also one from before a merge. */
  uuid: string
  /** Also delete the events received so far, of all distinct ids of the person. */
  withEvents: boolean
}

/**
 * Deletes a person, and its events if asked.
 *
 * Once this returns, the deletion is recorded and cannot be undone: a pipeline process later deletes the rows that
 * remain after `deps.waitMs`, or while ClickHouse is unavailable.
 *
 * @returns null when there is no such person.
 * @throws when Postgres is unavailable, or ClickHouse while it is needed to resolve an id from before a merge.
 */
export async function deletePerson (
  request: DeletePersonRequest, deps: FinishDeletionDeps & { logger: Logger }
): Promise<DeletionProgress & { uuid: string } | null> {
  const { projectId, withEvents } = request
  const uuid = await findPersonByUuid(deps, projectId, request.uuid)
  if (uuid === null) return null
  const deletion = await beginPersonDeletion(deps.sql, { projectId, uuid, withEvents })
  if (deletion === null) return null
  try {
    return { uuid, ...await finishPersonDeletion(deletion, deps) }
  } catch (err) {
    deps.logger.warn({ err, deletion: deletion.id }, 'could not finish deleting a person; the pipeline will retry')
    return { uuid, isDone: false, events: 0 }
  }
}

/**
 * Deletes a person in Postgres (with its distinct ids, hash keys of flags and memberships of cohorts) and records what
 * is to be deleted in ClickHouse; see `finishPersonDeletion`.
 *
 * @param person.uuid  The person's current uuid; see `findPersonByUuid`.
 * @returns null when there is no such person.
 */
async function beginPersonDeletion (
  sql: Sql, person: { projectId: number, uuid: string, withEvents: boolean }
): Promise<PersonDeletion | null> {
  return await sql.begin(async (transaction) => {
    const { projectId, uuid } = person
    const version = (await lockPersons(transaction, [projectId])).get(projectId)
    const [found] = await transaction<{ id: number }[]>`
      SELECT id FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid} FOR UPDATE`
    if (version === undefined || found === undefined) return null

    const distinctIds = await deleteDistinctIds(transaction, projectId, found.id)
    await transaction`DELETE FROM persons WHERE id = ${found.id}`
    await postTombstone(transaction, { projectId, uuid, version })
    const uuids = [...new Set([uuid, ...distinctIds.map((distinctId) => personUuid(projectId, distinctId))])]
    const [deletion] = await transaction<[PersonDeletion]>`
      INSERT INTO person_deletions (project_id, person_uuid, person_uuids, with_events, version, outbox_id)
      VALUES (${projectId}, ${uuid}, ${uuids}::uuid[], ${person.withEvents}, ${version},
        (SELECT coalesce(max(id), 0) FROM persons_outbox))
      RETURNING ${selectDeletion(sql)}`
    return deletion
  })
}

async function deleteDistinctIds (
  transaction: TransactionSql, projectId: number, personId: number
): Promise<string[]> {
  const rows = await transaction<{ distinctId: string }[]>`
    DELETE FROM person_distinct_ids WHERE person_id = ${personId} RETURNING distinct_id AS "distinctId"`
  const distinctIds = rows.map(({ distinctId }) => distinctId)
  await transaction`
    DELETE FROM flag_hash_keys WHERE project_id = ${projectId} AND distinct_id = ANY (${distinctIds})`
  await transaction`
    UPDATE persons_warning_minutes SET samples = '[]' WHERE project_id = ${projectId} AND EXISTS (
      SELECT FROM jsonb_array_elements(samples) AS sample
      WHERE sample->>'distinct_id' = ANY (${distinctIds}) OR sample->>'value' = ANY (${distinctIds}))`
  return distinctIds
}

/** Hides the person from queries at once, long before its rows are deleted. */
async function postTombstone (
  transaction: TransactionSql, { projectId, uuid, version }: { projectId: number, uuid: string, version: number }
): Promise<void> {
  const copies = noCopies()
  copies.persons.push({
    project_id: projectId, person_id: uuid, properties: {}, is_identified: false, created_at: toCopyTime(0), version,
    is_deleted: 1
  })
  await postCopies(transaction, copies)
}
