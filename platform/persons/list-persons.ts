import { toDistinctId } from '../identity/identity.ts'
import { type Sql } from '../postgres/connect-postgres.ts'

export interface PersonSummary {
  uuid: string
  isIdentified: boolean
  createdAt: Date
  /** Some of its distinct ids, in the order of the alphabet. */
  distinctIds: string[]
  distinctIdCount: number
}

/** Which persons are listed; what is absent does not matter. */
export interface PersonFilter {
  /** A distinct id of the person begins with it. */
  distinctIdPrefix?: string
  /** A property that has this text as its value. Reads every person of the project. */
  property?: { name: string, value: string }
  limit: number
}

/** Distinct ids of one person that are shown in a list. */
const SHOWN_IDS = 3

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
