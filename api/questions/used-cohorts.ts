import { invalidField } from '../../engines/errors.ts'
import { cohortsOf } from '../../engines/questions/cohort-definition.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'

export interface UsedCohort { id: number, name: string, as_of: string }

/**
 * The cohorts that a definition names, and the age of their members.
 *
 * @param attr  Where the definition stands, for errors.
 * @throws {HttpError} 400 for a cohort that is not there, or whose members have not been found yet.
 */
export async function readUsedCohorts (
  sql: Sql, projectId: number, definition: unknown, attr: string
): Promise<UsedCohort[]> {
  const ids = [...cohortsOf(definition)]
  if (ids.length === 0) return []
  const found = await sql<{ id: number, name: string, as_of: Date | null, error: string | null }[]>`
    SELECT c.id, c.name, r.refreshed_at AS as_of, r.error FROM cohorts AS c LEFT JOIN cohort_refreshes AS r ON r.cohort_id = c.id
    WHERE c.project_id = ${projectId} AND NOT c.deleted AND c.id = ANY (${ids})`
  return ids.map((id) => {
    const { name, as_of: at, error } = found.find((each) => each.id === id) ?? {}
    if (name === undefined) throw invalidField(attr, `Cohort ${id} does not exist.`)
    if (at == null) throw invalidField(attr, `The members of the cohort ${name} (${id}) have not been found yet. ${error === null || error === '' ? 'That takes a few seconds.' : error}`)
    return { id, name, as_of: at.toISOString() }
  })
}
