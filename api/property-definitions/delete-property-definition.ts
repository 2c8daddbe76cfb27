import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors/not-found.ts'

/**
 * Forgets a definition with what was written to it; the property stays in its events. The next event that arrives with
 * it makes a new one: the row stays, unseen, for the roll-up to know which events are older than the deletion.
 *
 * @throws {HttpError} 404.
 */
export async function deletePropertyDefinition (sql: Sql, projectId: number, id: string): Promise<void> {
  const { count } = await sql`
    UPDATE property_definitions SET
      deleted_at = clock_timestamp(), id = gen_random_uuid(), tags = '{}', property_type = NULL,
      property_type_is_manual = false, query_usage_30_day = 0, renamed_at = NULL, query_usage_written_at = NULL
    WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
  if (count === 0) throw notFound()
}
