import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { originSchemas, selectCreatedBy } from '../projects/users.ts'
import { matchSearch, newestBy, searchQueryProperties, selectPage } from '../http/list-queries.ts'
import { notFound, orNotFound } from '../http/answer-errors.ts'
import { object, type Row, timeOrNull, type Value } from '../http/json-schema.ts'
import type { PageContent } from '../http/pagination.ts'
import type { Access } from '../http/personal-key-access.ts'
import { pageQuery } from '../http/routes.ts'

/** An experiment as answers show it (docs/reference/contract/service.md 2.3). */
export type Experiment = Row<typeof experimentSchema>

function selectExperiment (sql: Sql): Statement {
  return sql`e.id, e.name, e.description, e.start_date, e.end_date, f.key AS feature_flag_key,
    json_build_object('id', f.id, 'team_id', f.project_id, 'name', f.name, 'key', f.key, 'filters', f.filters,
      'deleted', f.deleted, 'active', f.active,
      'ensure_experience_continuity', f.ensure_experience_continuity) AS feature_flag,
    e.parameters, e.secondary_metrics, e.filters, e.archived, ${selectCreatedBy(sql, sql`e.created_by`)},
    e.created_at, e.updated_at`
}

const anyObject = { type: 'object', additionalProperties: true } as const

const linkedFlagSchema = object({
  id: { type: 'integer' },
  team_id: { type: 'integer', description: 'Id of the project.' },
  name: { type: 'string' },
  key: { type: 'string' },
  filters: anyObject,
  deleted: { type: 'boolean' },
  active: { type: 'boolean' },
  ensure_experience_continuity: { type: 'boolean' }
}, { description: 'The flag that assigns the variants.' })

export const experimentProperties = {
  id: { type: 'integer' },
  name: { type: 'string' },
  description: { type: 'string' },
  start_date: { ...timeOrNull, description: 'When it was launched; null for a draft.' },
  end_date: { ...timeOrNull, description: 'When it ended; null while it runs.' },
  feature_flag_key: { type: 'string' },
  feature_flag: linkedFlagSchema,
  parameters: anyObject,
  secondary_metrics: { description: 'An object or an array of metrics, as written.' },
  filters: { ...anyObject, description: 'The primary metric; see docs/change/experiments.md for its forms.' },
  archived: { type: 'boolean' },
  ...originSchemas
} as const

export const experimentSchema = object(experimentProperties, { $id: 'Experiment' })

/** Ids are integers of Postgres; larger ones were never given. */
export const MAX_ID = 2_147_483_647

/** @throws {HttpError} 404 when the project has no such experiment, or it was deleted. */
export async function findExperiment (sql: Sql, projectId: number, id: number): Promise<Experiment> {
  if (id > MAX_ID) throw notFound()
  const [experiment] = await sql<Experiment[]>`
    SELECT ${selectExperiment(sql)}
    FROM experiments e JOIN feature_flags f ON f.id = e.feature_flag_id
    WHERE e.project_id = ${projectId} AND e.id = ${id} AND NOT e.deleted`
  return orNotFound(experiment)
}

export const experimentQuery = pageQuery({
  ...searchQueryProperties,
  archived: { type: 'boolean', description: 'true: only archived experiments; false: only others. Default: both.' }
})

export async function listExperiments (
  sql: Sql, access: Access, query: Value<typeof experimentQuery>
): Promise<PageContent<Experiment>> {
  const where = sql`e.project_id = ${access.projectId} AND NOT e.deleted
    AND ${query.archived === undefined ? sql`true` : sql`e.archived = ${query.archived}`}
    AND ${matchSearch(sql, sql`e.name`, query.search, access)}`
  return await selectPage<Experiment>(sql, query, {
    order: 'newest', select: selectExperiment(sql), where, keys: newestBy(sql`e.id`),
    from: sql`experiments e JOIN feature_flags f ON f.id = e.feature_flag_id`
  })
}
