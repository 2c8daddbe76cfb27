import type { FastifyInstance } from 'fastify'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { nullableObject, object, optional } from '../http/json-schema.ts'
import { pageQueryProperties, type PageQuery } from '../http/pagination.ts'
import { routesOf } from '../http/routes.ts'
import { newProjectSchema, projectRoutes, readTimezone } from './project-routes.ts'
import { selectUserSummary, type UserSummary, userSummarySchema } from './users.ts'

const projectSchema = object({
  id: { type: 'integer' },
  uuid: { type: 'string', format: 'uuid' },
  name: { type: 'string' },
  api_token: { type: ['string', 'null'], description: 'The project API key that SDKs send. It is public. Null when all are expired.' },
  timezone: { type: 'string', description: 'IANA name.' },
  week_starts: { type: 'string', enum: ['monday', 'sunday'], description: 'Default first day of the week in questions.' },
  anonymize_ips: { type: 'boolean', description: 'true: client addresses are not stored.' },
  created_at: { type: 'string', format: 'date-time' }
}, { $id: 'Project' })

const ownUserSchema = object({
  ...userSummarySchema.properties,
  team: nullableObject(
    { id: { type: 'integer' }, uuid: { type: 'string', format: 'uuid' }, name: { type: 'string' } },
    'The project of @current; null if the key has no project.'
  ),
  personal_api_key: object({
    scopes: { type: 'array', items: { type: 'string' } },
    scoped_teams: { type: ['array', 'null'], items: { type: 'integer' }, description: 'Ids of its projects; null for all.' }
  }, { description: 'Rights of the key of this request.' })
})

/** What a script asks first: whose key it has, and for which projects; and projects. */
export async function accountRoutes (
  app: FastifyInstance, { sql, publicUrl, now }: { sql: Sql, publicUrl: string, now: () => number }
): Promise<void> {
  const routes = routesOf(app, { tag: 'account', object: 'project', publicUrl })
  app.addSchema(projectSchema)
  ownUserRoute(app, sql)
  projectRoutes(routes, { sql, now })

  routes.list('/projects', {
    summary: 'List the projects of the key', query: optional(pageQueryProperties), item: { $ref: 'Project#' }
  }, async ({ query }, { projectIds }) => {
    const [results, [total]] = await Promise.all([
      readProjects(sql, projectIds, query),
      sql<{ count: number }[]>`SELECT count(*) AS count FROM projects WHERE ${projectIds}::integer[] IS NULL OR id = ANY(${projectIds}::integer[])`
    ])
    return { results, count: total?.count ?? 0 }
  })

  routes.get('/projects/:project_id', {
    summary: 'Show a project', answer: { $ref: 'Project#' }
  }, async (request, { projectId }) => await showProject(sql, projectId))

  routes.patch('/projects/:project_id', {
    summary: 'Change the name, time zone or first day of the week of a project',
    description: 'Reports use the new zone and weeks for past days too.',
    body: optional(newProjectSchema.properties, { additionalProperties: false }), answer: { $ref: 'Project#' }
  }, async ({ body: { name = null, timezone, week_starts: weekStarts = null } }, { projectId }) => {
    const zone = timezone === undefined ? null : readTimezone(timezone)
    await sql`
      UPDATE projects SET name = coalesce(${name}, name), timezone = coalesce(${zone}, timezone), week_starts = coalesce(${weekStarts}, week_starts)
      WHERE id = ${projectId}`
    return await showProject(sql, projectId)
  })
}

function ownUserRoute (app: FastifyInstance, sql: Sql): void {
  const routes = routesOf(app, { tag: 'account', object: 'user' })

  routes.get('/users/@me', {
    summary: 'Show the user of the key', answer: ownUserSchema
  }, async (request, { userId, scopes, projectIds }) => {
    const [row] = await sql<{ user: UserSummary }[]>`SELECT ${selectUserSummary(sql)} AS user FROM users u WHERE id = ${userId}`
    // A key goes with its user; this one may have gone during the request.
    const { user } = orNotFound(row)
    const [team] = await readProjects(sql, projectIds, { limit: 1, offset: 0 })
    return { ...user, team: team ?? null, personal_api_key: { scopes, scoped_teams: projectIds } }
  })
}

async function showProject (sql: Sql, projectId: number): Promise<object> {
  const [project] = await readProjects(sql, [projectId], { limit: 1, offset: 0 })
  return orNotFound(project)
}

/** Projects with the key that SDKs should send, by id. */
async function readProjects (
  sql: Sql, ids: readonly number[] | null, { limit, offset }: PageQuery
): Promise<Array<{ id: number, uuid: string, name: string }>> {
  return await sql`
    SELECT id, uuid, name, timezone, week_starts, anonymize_ips, created_at, (
      SELECT api_key FROM project_api_keys k WHERE k.project_id = p.id AND kind = 'project' AND (expires_at IS NULL OR expires_at > now())
      ORDER BY expires_at NULLS FIRST, created_at LIMIT 1
    ) AS api_token
    FROM projects p WHERE ${ids}::integer[] IS NULL OR id = ANY(${ids}::integer[])
    ORDER BY id LIMIT ${limit} OFFSET ${offset}`
}
