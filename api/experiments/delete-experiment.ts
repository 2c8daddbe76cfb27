import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { findExperiment } from './find-experiment.ts'

/**
 * Deletes an experiment: it is gone from every answer. Its flag stays, because people may still see its variants.
 *
 * @throws {HttpError} 404.
 */
export async function deleteExperiment (sql: Sql, projectId: number, id: number): Promise<void> {
  await findExperiment(sql, projectId, id)
  await sql`UPDATE experiments SET deleted = true, updated_at = now() WHERE project_id = ${projectId} AND id = ${id}`
}
