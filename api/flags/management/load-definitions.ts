import type { Sql, SqlTemplates } from '../../../platform/postgres/connect-postgres.ts'
import type { CohortDefinition, FlagDefinition, ProjectDefinitions } from '../../../engines/flags/flag-definition.ts'

/** Reads the ids of all projects: tens of rows. */
export async function loadProjectIds (sql: Sql): Promise<Set<number>> {
  const rows = await sql<Array<{ id: number }>>`SELECT id FROM projects`
  return new Set(rows.map(({ id }) => id))
}

/** Reads the revision of the flags of each project. A project that never had a flag has none. */
export async function loadRevisions (sql: Sql): Promise<Map<number, number>> {
  const rows = await sql<Array<{ project_id: number, revision: number }>>`
    SELECT project_id, revision FROM flag_revisions`
  return new Map(rows.map(({ project_id: projectId, revision }) => [projectId, revision]))
}

/** Reads everything needed to evaluate the flags of a project, in one query and so from one snapshot. */
export async function loadDefinitions (sql: SqlTemplates, projectId: number): Promise<ProjectDefinitions | null> {
  const [row] = await sql<{ timezone: string, flags: FlagDefinition[], cohorts: CohortDefinition[], groupTypes: [number, string][] }[]>`
    SELECT
      timezone,
      (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY f.id), '[]') FROM (
        SELECT id, key, name, filters, active, version, ensure_experience_continuity, evaluation_runtime, bucketing_identifier,
          EXISTS (SELECT FROM experiments e WHERE e.feature_flag_id = feature_flags.id AND NOT e.deleted) AS has_experiment
        FROM feature_flags WHERE project_id = projects.id AND NOT deleted
      ) f) AS flags,
      (SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'filters', filters,
          'isStatic', is_static OR question IS NOT NULL OR coalesce(jsonb_path_exists(filters, '$.** ? (@.type == "behavioral")'), false),
          'isPending', NOT is_static AND refreshed_at IS NULL)), '[]')
        FROM cohorts LEFT JOIN cohort_refreshes ON cohort_id = cohorts.id WHERE project_id = projects.id AND NOT deleted) AS cohorts,
      (SELECT coalesce(jsonb_agg(jsonb_build_array(group_type_index, group_type)), '[]')
        FROM group_types WHERE project_id = projects.id) AS "groupTypes"
    FROM projects WHERE id = ${projectId}`
  return row === undefined ? null : { ...row, projectId, groupTypes: new Map(row.groupTypes) }
}
