import type { FastifyInstance } from 'fastify'
import { HttpError, MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { array, bodyOf, nullableObject, object, optional } from '../http/json-schema.ts'
import { pageQueryProperties, type PageQuery } from '../http/pagination.ts'
import { requireAllProjects } from '../http/personal-key-access.ts'
import { routesOf } from '../http/routes.ts'
import { isAdministrator } from './key-rights.ts'
import { newProjectSchema, projectRoutes, readTimezone } from './project-routes.ts'
import { createUser, listUsers, selectUserSummary, type UserSummary, userSummarySchema } from './users.ts'

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

const userSchema = object({ ...userSummarySchema.properties, keys: { type: 'integer', description: 'Number of valid personal keys.' } })

const newUserSchema = bodyOf({
  email: { type: 'string', minLength: 3, maxLength: 254 },
  first_name: { type: 'string', maxLength: 150, default: '', description: 'Shown as the author of what the user creates.' }
}, 'email')

/** What a script asks first: whose key it has, and for which projects; and users and projects. */
export async function accountRoutes (
  app: FastifyInstance, { sql, publicUrl, now }: { sql: Sql, publicUrl: string, now: () => number }
): Promise<void> {
  const routes = routesOf(app, { tag: 'account', object: 'project', publicUrl })
  app.addSchema(projectSchema)
  userRoutes(app, sql)
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

/** Users own personal keys. Only the scope `*` for all projects sees and makes others than the own. */
function userRoutes (app: FastifyInstance, sql: Sql): void {
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

  routes.get('/users', {
    summary: 'List users', answer: object({ results: array(userSchema) }),
    description: 'All users, for a key with the scope * for all projects; otherwise the user of the key.'
  }, async (request, access) => {
    const users = await listUsers(sql)
    return { results: isAdministrator(access) ? users : users.filter(({ id }) => id === access.userId) }
  })

  routes.create('/users', { summary: 'Create a user', body: newUserSchema, answer: userSchema }, async ({ body }, access) => {
    requireAllProjects(access)
    const { email, first_name: firstName = '' } = body
    const user = await createUser(sql, { email, firstName }).catch((error: unknown) => {
      if (!(error instanceof MillraceError)) throw error
      throw new HttpError(400, 'validation_error', error.code === 'MILLRACE_USER_EXISTS' ? 'unique' : 'invalid_input',
        error.code === 'MILLRACE_USER_EXISTS' ? 'There is already a user with this address.' : 'This is not an e-mail address.', { attr: 'email', cause: error })
    })
    return { ...user, keys: 0 }
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
