import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { personUuid } from '../../platform/persons/person-ids.ts'

/** One person with its properties and distinct ids. */
export interface Person {
  uuid: string
  isIdentified: boolean
  createdAt: Date
  distinctIds: string[]
  properties: Record<string, unknown>
}

export interface PersonSummary {
  uuid: string
  isIdentified: boolean
  createdAt: Date
  /** The first of its distinct ids, in alphabetical order. */
  distinctIds: string[]
  distinctIdCount: number
}

/** Which persons to list; absent fields match all. */
export interface PersonFilter {
  /** Some distinct id of the person begins with it. */
  distinctIdPrefix?: string
  /** The property has this value, as text. Reads every person of the project. */
  property?: { name: string, value: string }
  limit: number
}

/** Maximum distinct ids of a person in a list. */
const SHOWN_IDS = 3

/** Uuids per statement: they are sent in the URL, which servers limit to a megabyte. */
const CHUNK_UUIDS = 1000

/** Lists persons of a project, newest first. */
export async function listPersons (sql: Sql, projectId: number, filter: PersonFilter): Promise<PersonSummary[]> {
  const { distinctIdPrefix, property, limit } = filter
  const hasId = distinctIdPrefix === undefined
    ? sql``
    : sql`AND id IN (SELECT person_id FROM person_distinct_ids
        WHERE project_id = ${projectId} AND starts_with(distinct_id, ${toDistinctId(distinctIdPrefix)}))`
  const hasProperty = property === undefined ? sql`` : sql`AND properties ->> ${property.name} = ${property.value}`
  return await sql<PersonSummary[]>`
    SELECT uuid, is_identified AS "isIdentified", created_at AS "createdAt",
      ids.all[1:${SHOWN_IDS}] AS "distinctIds", coalesce(cardinality(ids.all), 0) AS "distinctIdCount"
    FROM persons CROSS JOIN LATERAL (
      SELECT coalesce(array_agg(distinct_id ORDER BY distinct_id), '{}') AS all
      FROM person_distinct_ids WHERE person_id = persons.id
    ) AS ids
    WHERE project_id = ${projectId}
      ${hasId} ${hasProperty}
    ORDER BY id DESC LIMIT ${limit}`
}

/**
 * Reads one person.
 *
 * @param uuid  The person's current uuid; see `findPersonByUuid`.
 * @returns null when there is no such person.
 */
export async function readPerson (sql: Sql, projectId: number, uuid: string): Promise<Person | null> {
  const [person] = await sql<(Omit<Person, 'properties'> & { properties: string })[]>`
    SELECT uuid, is_identified AS "isIdentified", created_at AS "createdAt", properties::text AS properties, ARRAY(
      SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id ORDER BY distinct_id
    ) AS "distinctIds"
    FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid}`
  if (person === undefined) return null
  // `JSON.parse` of the driver would round long numbers.
  return { ...person, properties: parseStoredJson(person.properties) as Person['properties'] }
}

/** Counts the events of all distinct ids of a person, also from before a merge. */
export async function countEventsOfPerson (
  clickhouse: ClickHouse, projectId: number, { uuid, distinctIds }: Pick<Person, 'uuid' | 'distinctIds'>
): Promise<number> {
  const uuids = [...new Set([uuid, ...distinctIds.map((distinctId) => personUuid(projectId, distinctId))])]
  let count = 0
  for (let i = 0; i < uuids.length; i += CHUNK_UUIDS) {
    const result = await clickhouse.query({
      query: `SELECT count() AS count FROM events
        WHERE project_id = {project: UInt32} AND person_id IN {uuids: Array(UUID)} SETTINGS final = 1`,
      query_params: { project: projectId, uuids: uuids.slice(i, i + CHUNK_UUIDS) },
      format: 'JSONEachRow'
    })
    const [row] = await result.json<{ count: string }>()
    count += Number(row?.count)
  }
  return count
}
