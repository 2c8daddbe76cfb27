import type { SqlTemplates } from '../../../platform/postgres/connect-postgres.ts'

/**
 * Has the exports of a project write the windows again that have these persons: a new revision of each, made of what is
 * stored then. To be called after their rows are gone from ClickHouse, everything on its way included.
 *
 * @param personUuids  As in `events.person_id` and `persons.person_id`; the computed one of a distinct id without a
 *   person.
 */
export async function reviseExports (
  sql: SqlTemplates, projectId: number, personUuids: readonly string[]
): Promise<void> {
  await sql`INSERT INTO export_erasures (export_id, person_uuids)
    SELECT id, ${[...personUuids]}::uuid[] FROM exports WHERE project_id = ${projectId}`
}
