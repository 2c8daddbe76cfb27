import { invalidField } from '../../engines/errors.ts'
import { cohortsOf } from '../../engines/questions/cohort-definition.ts'
import type { Question } from '../../engines/questions/question.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { askRows } from '../http/describe-clickhouse-error.ts'

export interface UsedCohort { id: number, name: string, as_of: string }

interface Refreshed { as_of: Date | null, took: number | null, error: string | null }

interface Found extends Refreshed { id: number, name: string, place: string }

/** @throws {HttpError} 400 naming the field with a cohort that the project does not have. */
export async function requireCohorts (
  sql: SqlTemplates, projectId: number, fields: Readonly<Record<string, unknown>>
): Promise<void> {
  await findCohorts(sql, projectId, cohortsOf(fields))
}

/**
 * Cohorts, and when the members were found with which an answer is computed.
 *
 * @param places  By id, the field that names the cohort.
 * @param moment  Of an answer, whose members are meant; left out: now.
 * @throws {HttpError} 400 for a cohort that is not there, or whose members have not been found yet, or were replaced
 *   since `storedUntil`.
 */
export async function readUsedCohorts (
  sql: SqlTemplates, projectId: number, places: ReadonlyMap<number, string>,
  { clickhouse, storedUntil }: { clickhouse?: ClickHouse, storedUntil?: number } = {}
): Promise<UsedCohort[]> {
  const found = await findCohorts(sql, projectId, places)
  const versions = clickhouse === undefined || storedUntil === undefined || found.length === 0
    ? undefined
    : await readVersions(clickhouse, { project: projectId, ids: found.map(({ id }) => id), until: storedUntil })
  return found.map(({ id, name, as_of: newest, took, error, place }) => {
    if (newest === null) throw invalidField(place, `The members of the cohort ${name} (${id}) have not been found yet. ${error === null || error === '' ? 'That takes a few seconds.' : error}`)
    const at = versions === undefined ? newest.getTime() : versions.get(id)
    // A refresh that ran at that moment: the answer may have had the members of before.
    const isRefreshed = at === newest.getTime() && Number(storedUntil) < at + Number(took)
    if (at === undefined || isRefreshed) throw invalidField('as_of', `The members of the cohort ${name} (${id}) were refreshed after this answer, and the former ones are no longer known. Answer the question again.`)
    return { id, name, as_of: new Date(at).toISOString() }
  })
}

/** By id, the fields of a definition that name cohorts, as they were written. */
export function placesOf (question: Question): Map<number, string> {
  return placesIn(question.kind === 'paths' ? { [question.direction]: question.anchor } : question, 'definition')
}

/** The same of conditions that were read. */
export function placesIn (read: unknown, path: string): Map<number, string> {
  return new Map([...cohortsOf(read, [path])].map(([id, place]) => [id, place.replace(/__values$/, '__value')]))
}

/** By id, the newest whole version of members that was begun until then. */
async function readVersions (
  clickhouse: ClickHouse, params: { project: number, ids: number[], until: number }
): Promise<Map<number, number>> {
  const rows = await askRows<{ id: number, version: string }>(clickhouse, `
    SELECT cohort_id AS id, max(begun) AS version FROM (
      SELECT cohort_id, version AS begun FROM cohort_members WHERE project_id = {project: UInt32} AND cohort_id IN {ids: Array(UInt32)} AND version <= {until: UInt64}
      GROUP BY cohort_id, begun HAVING count() >= max(size)) GROUP BY id`, params)
  return new Map(rows.map(({ id, version }) => [id, Number(version)]))
}

/** @param places  By id. */
async function findCohorts (
  sql: SqlTemplates, projectId: number, places: ReadonlyMap<number, string>
): Promise<Found[]> {
  if (places.size === 0) return []
  // As texts, because an id may be larger than any in Postgres.
  const found = await sql<Omit<Found, 'place'>[]>`
    SELECT c.id, c.name, r.refreshed_at AS as_of, r.took, r.error FROM cohorts AS c LEFT JOIN cohort_refreshes AS r ON r.cohort_id = c.id
    WHERE c.project_id = ${projectId} AND NOT c.deleted AND c.id::text = ANY (${[...places.keys()].map(String)})`
  return [...places].map(([id, place]) => {
    const cohort = found.find((each) => each.id === id)
    if (cohort === undefined) throw invalidField(place, `Cohort ${id} does not exist.`)
    return { ...cohort, place }
  })
}
