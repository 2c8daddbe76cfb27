import { invalidField } from '../../engines/errors.ts'
import { cohortsOf } from '../../engines/questions/cohort-definition.ts'
import type { SqlTemplates } from '../../platform/postgres/connect-postgres.ts'

export interface UsedCohort { id: number, name: string, as_of: string }

interface Found { id: number, name: string, as_of: Date | null, error: string | null }

/** @throws {HttpError} 400 naming the field with a cohort that the project does not have. */
export async function requireCohorts (
  sql: SqlTemplates, projectId: number, fields: Readonly<Record<string, unknown>>
): Promise<void> {
  await findCohorts(sql, projectId, cohortsOf(fields))
}

/**
 * The cohorts that a definition names, and the age of their members.
 *
 * @param attr  Where the definition stands, for errors.
 * @throws {HttpError} 400 for a cohort that is not there, or whose members have not been found yet.
 */
export async function readUsedCohorts (
  sql: SqlTemplates, projectId: number, definition: unknown, attr: string
): Promise<UsedCohort[]> {
  const places = new Map([...cohortsOf(definition).keys()].map((id) => [id, attr]))
  return (await findCohorts(sql, projectId, places)).map(({ id, name, as_of: at, error }) => {
    if (at === null) throw invalidField(attr, `The members of the cohort ${name} (${id}) have not been found yet. ${error === null || error === '' ? 'That takes a few seconds.' : error}`)
    return { id, name, as_of: at.toISOString() }
  })
}

/** @param places  By id. */
async function findCohorts (
  sql: SqlTemplates, projectId: number, places: ReadonlyMap<number, string>
): Promise<Found[]> {
  if (places.size === 0) return []
  // As texts, because an id may be larger than any in Postgres.
  const found = await sql<Found[]>`
    SELECT c.id, c.name, r.refreshed_at AS as_of, r.error FROM cohorts AS c LEFT JOIN cohort_refreshes AS r ON r.cohort_id = c.id
    WHERE c.project_id = ${projectId} AND NOT c.deleted AND c.id::text = ANY (${[...places.keys()].map(String)})`
  return [...places].map(([id, place]) => {
    const cohort = found.find((each) => each.id === id)
    if (cohort === undefined) throw invalidField(place, `Cohort ${id} does not exist.`)
    return cohort
  })
}
