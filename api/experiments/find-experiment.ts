import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import { selectExperiment, type Experiment } from './experiment.ts'

/** Ids are integers of Postgres; larger ones were never given. */
export const MAX_ID = 2_147_483_647

/** @throws {HttpError} 404 when the project has no such experiment, or it was deleted. */
export async function findExperiment (sql: Sql, projectId: number, id: number): Promise<Experiment> {
  if (id > MAX_ID) throw notFound()
  const [experiment] = await sql<Experiment[]>`
    SELECT ${selectExperiment(sql)}
    FROM experiments e JOIN feature_flags f ON f.id = e.feature_flag_id
    WHERE e.project_id = ${projectId} AND e.id = ${id} AND NOT e.deleted`
  if (experiment === undefined) throw notFound()
  return experiment
}
