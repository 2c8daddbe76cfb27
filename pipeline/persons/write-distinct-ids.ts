import { personUuid } from '../../platform/persons/person-ids.ts'
import type { PersonsCopies } from '../../platform/persons/persons-outbox.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { planEachTime } from './load-persons.ts'
import { absorbedPersons, finalPerson, type PersonsState, type PersonState } from './persons-state.ts'

/** The version with which the changes of a project are stamped (see `lockPersons`). */
export type VersionOf = (projectId: number) => number

/** A distinct id and the person that it now belongs to. */
interface AssignedDistinctId {
  projectId: number
  distinctId: string
  personUuid: string
  version: number
}

/** Writes the distinct ids that had no person before, and adds their copies. */
export async function insertDistinctIds (
  transaction: TransactionSql, state: PersonsState, versionOf: VersionOf, copies: PersonsCopies
): Promise<void> {
  if (state.newIds.length === 0) return
  const rows = state.newIds.map(({ projectId, distinctId, person }) => {
    const owner = finalPerson(person)
    copyDistinctId(copies, { projectId, distinctId, personUuid: owner.uuid, version: versionOf(projectId) })
    return { p: projectId, d: distinctId, id: owner.id, v: versionOf(projectId) }
  })
  await transaction`
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id, version)
    SELECT * FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new (p integer, d text, id bigint, v bigint)`
}

/**
 * Moves what belonged to merged persons to those they were merged into: distinct ids and memberships of cohorts. The
 * identifiers that flags hash are stored by distinct id and need no move.
 *
 * @param alive  The persons that are left; each is stored by now.
 * @returns the moved distinct ids.
 */
export async function moveDistinctIds (
  transaction: TransactionSql, alive: readonly PersonState[], versionOf: VersionOf
): Promise<AssignedDistinctId[]> {
  const byTarget = new Map<number, PersonState>()
  const moves: { from: number, into: number, v: number }[] = []
  for (const target of alive) {
    if (target.absorbed.length === 0) continue
    byTarget.set(target.id as number, target)
    for (const source of absorbedPersons(target)) {
      if (source.id === null) continue
      moves.push({ from: source.id, into: target.id as number, v: versionOf(target.projectId) })
    }
  }
  const list = transaction`json_to_recordset(${JSON.stringify(moves)}::text::json)
    AS move ("from" bigint, "into" bigint, v bigint)`

  // Cohort members are inserted without the persons lock: their foreign keys take share locks on these rows.
  await transaction`
    SELECT 1 FROM persons WHERE id = ANY (${moves.map(({ from }) => from)}::bigint[]) ORDER BY id FOR UPDATE`
  const moved = await planEachTime(transaction, async () => await transaction<{ distinctId: string, into: number }[]>`
    UPDATE person_distinct_ids SET person_id = move."into", version = move.v
    FROM ${list} WHERE person_id = move."from"
    RETURNING distinct_id AS "distinctId", person_id AS into`)
  await transaction`
    INSERT INTO cohort_members (cohort_id, person_id)
    SELECT cohort_id, move."into" FROM ${list} JOIN cohort_members ON person_id = move."from"
    ON CONFLICT DO NOTHING`
  return moved.map(({ distinctId, into }) => {
    const { projectId, uuid } = byTarget.get(into) as PersonState
    return { projectId, distinctId, personUuid: uuid, version: versionOf(projectId) }
  })
}

/** Adds the copies of an assignment: the id's person, and an override when that is not its computed person. */
export function copyDistinctId (copies: PersonsCopies, assigned: AssignedDistinctId): void {
  const { projectId, distinctId, version } = assigned
  const common = { project_id: projectId, person_id: assigned.personUuid, version, is_deleted: 0 } as const
  copies.person_distinct_ids.push({ ...common, distinct_id: distinctId })
  const computed = personUuid(projectId, distinctId)
  if (computed !== assigned.personUuid) copies.person_overrides.push({ ...common, old_person_id: computed })
}
