import { isDeepStrictEqual } from 'node:util'
import { personUuid } from '../../../schema/wire/identity.ts'
import type { PersonsStores } from './start-persons-stores.ts'

interface PersonRow { project: number, person: string, properties: string, identified: boolean }
interface IdRow { project: number, id: string, person: string }

/**
 * Compares the copies in ClickHouse with Postgres, for tests: the persons, and the person of each distinct id, by
 * both ways that an analyst may query it.
 *
 * @returns what differs, in words; empty when nothing does.
 */
export async function compareCopies ({ sql, clickhouse: { client } }: PersonsStores): Promise<string[]> {
  const read = async <T>(query: string): Promise<T[]> =>
    await (await client.query({ query, format: 'JSONEachRow' })).json<T>()
  const differences: string[] = []

  const persons = await sql<PersonRow[]>`
    SELECT project_id AS project, uuid::text AS person, properties::text AS properties, is_identified AS identified FROM persons`
  const copies = new Map((await read<PersonRow>(
    'SELECT project_id AS project, person_id AS person, properties, is_identified AS identified FROM persons FINAL'
  )).map((row) => [`${row.project}:${row.person}`, row]))
  if (copies.size !== persons.length) differences.push(`${copies.size} copies of ${persons.length} persons`)
  for (const { project, person, properties, identified } of persons) {
    const copy = copies.get(`${project}:${person}`)
    const isSame = copy?.identified === identified &&
      isDeepStrictEqual(JSON.parse(copy.properties), JSON.parse(properties))
    if (!isSame) differences.push(`person ${project}:${person}`)
  }

  const ids = await sql<IdRow[]>`
    SELECT ids.project_id AS project, distinct_id AS id, uuid::text AS person
    FROM person_distinct_ids AS ids JOIN persons ON persons.id = person_id`
  const idCopies = new Map((await read<IdRow>(
    'SELECT project_id AS project, distinct_id AS id, person_id AS person FROM person_distinct_ids FINAL'
  )).map((row) => [`${row.project}:${row.id}`, row.person]))
  const overrides = new Map((await read<IdRow>(
    'SELECT project_id AS project, old_person_id AS id, person_id AS person FROM person_overrides FINAL'
  )).map((row) => [`${row.project}:${row.id}`, row.person]))
  if (idCopies.size !== ids.length) differences.push(`${idCopies.size} copies of ${ids.length} distinct ids`)
  for (const { project, id, person } of ids) {
    if (idCopies.get(`${project}:${id}`) !== person) differences.push(`distinct id ${project}:${id}`)
    const computed = personUuid(project, id)
    if ((overrides.get(`${project}:${computed}`) ?? computed) !== person) differences.push(`events of ${project}:${id}`)
  }
  return differences
}
