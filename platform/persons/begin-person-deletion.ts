import { type Sql, type TransactionSql } from '../postgres/connect-postgres.ts'
import { lockPersons } from './lock-persons.ts'
import { noCopies, postCopies, toCopyTime } from './persons-copies.ts'
import { selectDeletion, type PersonDeletion } from './person-deletion.ts'
import { personUuid } from './person-uuid.ts'

/**
 * Deletes a person in Postgres (with its distinct ids, flag overrides and places in cohorts) and records what is to
 * be deleted in ClickHouse; see `finishPersonDeletion`.
 *
 * @param person.uuid  The person's present uuid; see `findPersonByUuid`.
 * @returns null when there is no such person.
 */
export async function beginPersonDeletion (
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
    UPDATE persons_warnings SET example = '{}' WHERE project_id = ${projectId}
      AND (example->>'distinctId' = ANY (${distinctIds}) OR example->>'otherDistinctId' = ANY (${distinctIds}))`
  return distinctIds
}

/** Hides the person at once, long before its rows are gone. */
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
