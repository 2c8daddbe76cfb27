import { personUuid } from '../../schema/wire/identity.ts'
import { type CopyRow, noCopies, type PersonsCopies, toCopyTime } from '../../schema/wire/persons-copies.ts'
import { postCopies } from '../../platform/postgres/post-copies.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { planEachTime } from './load-persons.ts'
import { absorbedPersons, finalPerson, type PersonsState, type PersonState } from './persons-state.ts'

/**
 * Writes what a batch changed, and the copies for ClickHouse, in a fixed number of statements.
 *
 * @param versions  By project: the version of all its changes (see `lockPersons`).
 */
export async function writePersons (
  transaction: TransactionSql, state: PersonsState, versions: ReadonlyMap<number, number>
): Promise<void> {
  const versionOf: VersionOf = (projectId) => versions.get(projectId) as number
  const copies = noCopies()
  const alive = state.persons.filter((person) => person.mergedInto === null)
  // A person that was created and merged into another within this batch was never stored.
  const gone = state.persons.filter((person) => person.mergedInto !== null && person.id !== null)

  await insertPersons(transaction, alive.filter((person) => person.id === null), versionOf)
  const isChanged = ({ id, changed, isRetimed }: PersonState): boolean => id !== null && (changed || isRetimed === true)
  await updatePersons(transaction, alive.filter(isChanged), versionOf)
  for (const person of alive) if (person.changed) copies.persons.push(copyPerson(person, versionOf, 0))
  if (gone.length > 0) {
    await moveDistinctIds(transaction, alive, versionOf, copies)
    await transaction`DELETE FROM persons WHERE id = ANY (${gone.map((person) => person.id as number)}::bigint[])`
    for (const person of gone) copies.persons.push(copyPerson(person, versionOf, 1))
  }
  await insertDistinctIds(transaction, state, versionOf, copies)
  await writeGroups(transaction, state, versionOf, copies)
  await postCopies(transaction, copies)
}

async function insertPersons (
  transaction: TransactionSql, persons: readonly PersonState[], versionOf: VersionOf
): Promise<void> {
  if (persons.length === 0) return
  const ids = await transaction<{ id: number }[]>`
    SELECT nextval(pg_get_serial_sequence('persons', 'id')) AS id FROM generate_series(1, ${persons.length})`
  const rows = persons.map((person, i) => {
    person.id = ids[i]?.id as number
    return { ...toRow(person, versionOf), p: person.projectId, uuid: person.uuid }
  })
  await transaction`
    INSERT INTO persons (id, project_id, uuid, properties, property_times, is_identified, created_at, version)
    SELECT id, p, uuid, properties, times, identified, to_timestamp(created / 1000.0), version
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new
      (id bigint, p integer, uuid uuid, properties jsonb, times jsonb, identified boolean, created bigint, version bigint)`
}

async function updatePersons (
  transaction: TransactionSql, persons: readonly PersonState[], versionOf: VersionOf
): Promise<void> {
  if (persons.length === 0) return
  const rows = persons.map((person) => toRow(person, versionOf))
  await planEachTime(transaction, async () => await transaction`
    UPDATE persons SET properties = changed.properties, property_times = times, is_identified = identified,
      created_at = to_timestamp(created / 1000.0), version = changed.version
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS changed
      (id bigint, properties jsonb, times jsonb, identified boolean, created bigint, version bigint)
    WHERE persons.id = changed.id`)
}

function toRow (person: PersonState, versionOf: VersionOf): Record<string, unknown> {
  const { id, properties, times, isIdentified: identified, createdAt: created } = person
  const version = versionOf(person.projectId)
  return { id, properties, ...times && { times: Object.fromEntries(times) }, identified, created, version }
}

function copyPerson (person: PersonState, versionOf: VersionOf, isDeleted: 0 | 1): CopyRow {
  const { projectId, uuid, isIdentified, createdAt } = person
  const properties = isDeleted === 1 ? {} : person.properties
  const common = { project_id: projectId, version: versionOf(projectId), is_deleted: isDeleted, properties }
  return { ...common, person_id: uuid, is_identified: isIdentified, created_at: toCopyTime(createdAt) }
}

/** Writes new group types and changed groups, and adds the copies of the groups. */
async function writeGroups (
  transaction: TransactionSql, state: PersonsState, versionOf: VersionOf, copies: PersonsCopies
): Promise<void> {
  if (state.newGroupTypes.length > 0) {
    const types = state.newGroupTypes.map(({ projectId, groupType, groupTypeIndex }) =>
      ({ p: projectId, t: groupType, i: groupTypeIndex }))
    await transaction`
      INSERT INTO group_types (project_id, group_type, group_type_index)
      SELECT * FROM json_to_recordset(${JSON.stringify(types)}::text::json) AS new (p integer, t text, i integer)`
  }
  const changed = state.groups.filter((group) => group.changed)
  if (changed.length === 0) return
  const rows = changed.map((group) => ({
    p: group.projectId, i: group.groupTypeIndex, k: group.groupKey, properties: group.properties,
    created: group.createdAt, v: versionOf(group.projectId)
  }))
  await transaction`
    INSERT INTO groups (project_id, group_type_index, group_key, properties, created_at, version)
    SELECT p, i, k, properties, to_timestamp(created / 1000.0), v
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS changed
      (p integer, i integer, k text, properties jsonb, created bigint, v bigint)
    ON CONFLICT (project_id, group_type_index, group_key)
      DO UPDATE SET properties = excluded.properties, version = excluded.version`
  for (const { projectId, groupType, groupKey, groupTypeIndex, properties, createdAt } of changed) {
    copies.groups.push({
      project_id: projectId, group_type: groupType, group_key: groupKey, group_type_index: groupTypeIndex,
      properties, created_at: toCopyTime(createdAt), version: versionOf(projectId), is_deleted: 0
    })
  }
}

/** The version with which the changes of a project are stamped (see `lockPersons`). */
type VersionOf = (projectId: number) => number

/** Writes the distinct ids that had no person before, and adds their copies. */
async function insertDistinctIds (
  transaction: TransactionSql, state: PersonsState, versionOf: VersionOf, copies: PersonsCopies
): Promise<void> {
  if (state.newIds.length === 0) return
  const rows = state.newIds.map(({ projectId, distinctId, person }) => {
    const owner = finalPerson(person)
    copyDistinctId(copies, distinctId, owner, versionOf)
    return { p: projectId, d: distinctId, id: owner.id, v: versionOf(projectId) }
  })
  await transaction`
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id, version)
    SELECT * FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new (p integer, d text, id bigint, v bigint)`
}

/**
 * Moves what belonged to merged persons to those they were merged into: distinct ids and memberships of cohorts. The
 * identifiers that flags hash are stored by distinct id and need no move. Adds the copies of the distinct ids.
 *
 * @param alive  The remaining persons, all of them stored.
 */
async function moveDistinctIds (
  transaction: TransactionSql, alive: readonly PersonState[], versionOf: VersionOf, copies: PersonsCopies
): Promise<void> {
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
  for (const { distinctId, into } of moved) {
    copyDistinctId(copies, distinctId, byTarget.get(into) as PersonState, versionOf)
  }
}

/** Adds the copies of an assignment: the id's person, and an override when that is not its computed person. */
function copyDistinctId (
  copies: PersonsCopies, distinctId: string, { projectId, uuid }: PersonState, versionOf: VersionOf
): void {
  const common = { project_id: projectId, person_id: uuid, version: versionOf(projectId), is_deleted: 0 } as const
  copies.person_distinct_ids.push({ ...common, distinct_id: distinctId })
  const computed = personUuid(projectId, distinctId)
  if (computed !== uuid) copies.person_overrides.push({ ...common, old_person_id: computed })
}
