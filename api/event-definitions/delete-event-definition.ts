import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors/not-found.ts'

/**
 * Forgets a definition with what was written to it; its events stay. The next event of that name that arrives makes a
 * new one: the row stays, unseen, for the roll-up to know which events are older than the deletion.
 *
 * @throws {HttpError} 404.
 */
export async function deleteEventDefinition (sql: Sql, projectId: number, id: string): Promise<void> {
  const { count } = await sql`
    UPDATE event_definitions SET
      deleted_at = clock_timestamp(), id = gen_random_uuid(), tags = '{}', post_to_slack = false, created_by = NULL,
      volume_30_day = 0, last_seen_at = NULL, query_usage_30_day = 0,
      volume_written_at = NULL, last_seen_written_at = NULL, query_usage_written_at = NULL, last_updated_at = now()
    WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
  if (count === 0) throw notFound()
}
