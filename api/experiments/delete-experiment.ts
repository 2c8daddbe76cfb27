import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import { MAX_ID } from './find-experiment.ts'

/**
 * Deletes an experiment: it is gone from every answer. Its flag stays, because people may still see its variants.
 *
 * @throws {HttpError} 404.
 */
export async function deleteExperiment (sql: Sql, projectId: number, id: number): Promise<void> {
  if (id > MAX_ID) throw notFound()
  const deleted = await sql`
    UPDATE experiments SET deleted = true, updated_at = now()
    WHERE project_id = ${projectId} AND id = ${id} AND NOT deleted RETURNING id`
  if (deleted.length === 0) throw notFound()
}
