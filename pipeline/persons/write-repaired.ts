import { isDeepStrictEqual } from 'node:util'
import { personUuid } from '../../schema/wire/identity.ts'
import { noCopies } from '../../schema/wire/persons-copies.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { postCopies, postTombstones } from '../../platform/postgres/post-copies.ts'
import { PersonsState, type PersonState } from './persons-state.ts'
import type { WholePerson } from './replay-persons.ts'
import { writePersons } from './write-persons.ts'

/** A person as it is stored, with all its distinct ids. */
export interface StoredWhole extends WholePerson {
  id: number
}

interface Repaired {
  project: number
  version: number
  stored: readonly StoredWhole[]
}

/**
 * Writes what a repair made of stored persons, and the copies. A person keeps its row, and with it its memberships of
 * cohorts, as long as it keeps its uuid. The caller has the persons lock.
 */
export async function writeRepaired (
  transaction: TransactionSql,
  { project, version, stored, after }: Repaired & { after: readonly WholePerson[] }
): Promise<void> {
  const rows = new Map(stored.map((person) => [person.uuid, person]))
  const state = new PersonsState()
  const persons = new Map<string, PersonState>()
  for (const { distinctIds, ...person } of after) {
    const row = rows.get(person.uuid)
    const changed = row === undefined || !isSame(row, { ...person, distinctIds })
    const written: PersonState = {
      ...person, id: row?.id ?? null, changed, isRetimed: changed, sizeBound: 2, isMeasured: false, mergedInto: null,
      absorbed: []
    }
    for (const id of distinctIds) persons.set(id, written)
    state.persons.push(written)
  }
  await writePersons(transaction, state, new Map([[project, version]]))
  await moveIds(transaction, { project, version, stored, persons })
  const gone = stored.filter(({ uuid }) => !after.some((person) => person.uuid === uuid))
  await transaction`DELETE FROM persons WHERE id = ANY (${gone.map(({ id }) => id)}::bigint[])`
  await postTombstones(transaction, { projectId: project, uuids: gone.map(({ uuid }) => uuid), version })
}

function isSame (a: WholePerson, b: WholePerson): boolean {
  const pick = ({ properties, times = new Map(), isIdentified, createdAt }: WholePerson): object =>
    ({ properties, times, isIdentified, createdAt })
  return isDeepStrictEqual(pick(a), pick(b))
}

async function moveIds (
  transaction: TransactionSql,
  { project, version, stored, persons }: Repaired & { persons: ReadonlyMap<string, PersonState> }
): Promise<void> {
  const copies = noCopies()
  const moved: { d: string, id: number | null }[] = []
  for (const { uuid, distinctIds } of stored) {
    for (const id of distinctIds) {
      const person = persons.get(id)
      if (person?.uuid === uuid) continue
      const computed = personUuid(project, id)
      const now = person?.uuid ?? computed
      moved.push({ d: id, id: person?.id ?? null })
      const common = { project_id: project, person_id: now, version }
      copies.person_distinct_ids.push({ ...common, distinct_id: id, is_deleted: person === undefined ? 1 : 0 })
      copies.person_overrides.push({ ...common, old_person_id: computed, is_deleted: now === computed ? 1 : 0 })
    }
  }
  const list = transaction`json_to_recordset(${JSON.stringify(moved)}::text::json) AS moved (d text, id bigint)`
  await transaction`
    UPDATE person_distinct_ids AS ids SET person_id = moved.id, version = ${version}
    FROM ${list} WHERE project_id = ${project} AND distinct_id = moved.d AND moved.id IS NOT NULL`
  await transaction`
    DELETE FROM person_distinct_ids AS ids USING ${list} WHERE project_id = ${project} AND distinct_id = moved.d AND moved.id IS NULL`
  await postCopies(transaction, copies)
}
