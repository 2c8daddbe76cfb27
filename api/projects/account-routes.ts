import type { FastifyInstance } from 'fastify'
import { HttpError, MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import { nullableObject, object } from '../http/json-schema.ts'
import { buildPage, pageQueryProperties, pageSchema, type PageQuery } from '../http/pagination.ts'
import { accessOf, requireAllProjects } from '../http/personal-key-access.ts'
import { isAdministrator } from './key-rights.ts'
import { newProjectSchema, projectRoutes, readTimezone } from './project-routes.ts'
import { createUser, listUsers, selectUserSummary, type UserSummary, userSummarySchema } from './users.ts'

const projectSchema = object({
  id: { type: 'integer' },
  uuid: { type: 'string', format: 'uuid' },
  name: { type: 'string' },
  api_token: { type: ['string', 'null'], description: 'The project API key that SDKs send. It is public. Null when all are expired.' },
  timezone: { type: 'string', description: 'IANA name.' },
  anonymize_ips: { type: 'boolean', description: 'The addresses of clients are not stored.' },
  created_at: { type: 'string', format: 'date-time' }
}, { $id: 'Project' })

const ownUserSchema = object({
  ...userSummarySchema.properties,
  team: nullableObject(
    { id: { type: 'integer' }, uuid: { type: 'string', format: 'uuid' }, name: { type: 'string' } },
    'The project that @current stands for; null when the key has access to none.'
  ),
  personal_api_key: object({
    scopes: { type: 'array', items: { type: 'string' } },
    scoped_teams: { type: ['array', 'null'], items: { type: 'integer' }, description: 'Ids of its projects; null for all.' }
  }, { description: 'What the key of this request may do.' })
})

const userSchema = object({ ...userSummarySchema.properties, keys: { type: 'integer', description: 'Personal keys that can be used now.' } })

const newUserSchema = {
  type: 'object',
  required: ['email'],
  additionalProperties: false,
  properties: {
    email: { type: 'string', minLength: 3, maxLength: 254 },
    first_name: { type: 'string', maxLength: 150, default: '', description: 'Shown as the author of what the user creates.' }
  }
} as const

/** What a script asks first: whose key it has, and for which projects; and users and projects. */
export async function accountRoutes (
  app: FastifyInstance, { sql, publicUrl, now }: { sql: Sql, publicUrl: string, now: () => number }
): Promise<void> {
  app.addSchema(projectSchema)
  await app.register(userRoutes, { sql })
  await app.register(projectRoutes, { sql, now })

  app.get('/users/@me', {
    config: { scope: 'user:read' },
    schema: { tags: ['account'], summary: 'Show the user of the key', response: { 200: ownUserSchema } }
  }, async (request) => {
    const { userId, scopes, projectIds } = accessOf(request)
    const [row] = await sql<{ user: UserSummary }[]>`SELECT ${selectUserSummary(sql)} AS user FROM users u WHERE id = ${userId}`
    // A key goes with its user; this one went during the request.
    if (row === undefined) throw notFound()
    const [team] = await readProjects(sql, projectIds, { limit: 1, offset: 0 })
    return { ...row.user, team: team ?? null, personal_api_key: { scopes, scoped_teams: projectIds } }
  })

  app.get<{ Querystring: PageQuery }>('/projects', {
    config: { scope: 'project:read' },
    schema: {
      tags: ['account'],
      summary: 'List the projects of the key',
      querystring: { type: 'object', properties: pageQueryProperties },
      response: { 200: pageSchema({ $ref: 'Project#' }) }
    }
  }, async (request) => {
    const { projectIds } = accessOf(request)
    const [results, [total]] = await Promise.all([
      readProjects(sql, projectIds, request.query),
      sql<{ count: number }[]>`SELECT count(*) AS count FROM projects WHERE ${projectIds}::integer[] IS NULL OR id = ANY(${projectIds}::integer[])`
    ])
    return buildPage(request, publicUrl, { results, count: total?.count ?? 0 })
  })

  app.get('/projects/:project_id', {
    config: { scope: 'project:read' },
    schema: { tags: ['account'], summary: 'Show a project', response: { 200: { $ref: 'Project#' } } }
  }, async (request) => await showProject(sql, accessOf(request).projectId))

  app.patch<{ Body: { name?: string, timezone?: string } }>('/projects/:project_id', {
    config: { scope: 'project:write' },
    schema: {
      tags: ['account'], summary: 'Change the name or the time zone of a project',
      description: 'Days of reports are those of the new zone, past ones too.',
      body: { ...newProjectSchema, required: [] }, response: { 200: { $ref: 'Project#' } }
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    const { name = null, timezone } = request.body
    const zone = timezone === undefined ? null : readTimezone(timezone)
    await sql`UPDATE projects SET name = coalesce(${name}, name), timezone = coalesce(${zone}, timezone) WHERE id = ${projectId}`
    return await showProject(sql, projectId)
  })
}

/** Users own personal keys. Only the scope `*` for all projects sees and makes others than the own. */
async function userRoutes (app: FastifyInstance, { sql }: { sql: Sql }): Promise<void> {
  app.get('/users', {
    config: { scope: 'user:read' },
    schema: {
      tags: ['account'],
      summary: 'List users',
      description: 'All users, for a key with the scope * for all projects; otherwise the user of the key.',
      response: { 200: object({ results: { type: 'array', items: userSchema } }) }
    }
  }, async (request) => {
    const access = accessOf(request)
    const users = await listUsers(sql)
    return { results: isAdministrator(access) ? users : users.filter(({ id }) => id === access.userId) }
  })

  app.post<{ Body: { email: string, first_name?: string } }>('/users', {
    config: { scope: 'user:write' },
    schema: { tags: ['account'], summary: 'Create a user', body: newUserSchema, response: { 201: userSchema } }
  }, async (request, reply) => {
    requireAllProjects(accessOf(request))
    const { email, first_name: firstName = '' } = request.body
    const user = await createUser(sql, { email, firstName }).catch((error: unknown) => {
      if (!(error instanceof MillraceError)) throw error
      throw new HttpError(400, 'validation_error', error.code === 'MILLRACE_USER_EXISTS' ? 'unique' : 'invalid_input',
        error.code === 'MILLRACE_USER_EXISTS' ? 'There is already a user with this address.' : 'This is not an e-mail address.', { attr: 'email', cause: error })
    })
    return await reply.code(201).send({ ...user, keys: 0 })
  })
}

async function showProject (sql: Sql, projectId: number): Promise<object> {
  const [project] = await readProjects(sql, [projectId], { limit: 1, offset: 0 })
  if (project === undefined) throw notFound()
  return project
}

/** Projects with the key that SDKs should send, by id. */
async function readProjects (
  sql: Sql, ids: readonly number[] | null, { limit, offset }: PageQuery
): Promise<Array<{ id: number, uuid: string, name: string }>> {
  return await sql`
    SELECT id, uuid, name, timezone, anonymize_ips, created_at, (
      SELECT api_key FROM project_api_keys k WHERE k.project_id = p.id AND kind = 'project' AND (expires_at IS NULL OR expires_at > now())
      ORDER BY expires_at NULLS FIRST, created_at LIMIT 1
    ) AS api_token
    FROM projects p WHERE ${ids}::integer[] IS NULL OR id = ANY(${ids}::integer[])
    ORDER BY id LIMIT ${limit} OFFSET ${offset}`
}
