import type { FastifyInstance } from 'fastify'
import type { Sql } from '../platform/postgres/connect-postgres.ts'
import { notFound } from './http/errors.ts'
import { buildPage, pageQueryProperties, pageSchema, type PageQuery } from './http/pagination.ts'
import { accessOf } from './http/personal-key-access.ts'
import { selectUserSummary, type UserSummary, userSummarySchema } from './keys/users.ts'

const projectSchema = {
  $id: 'Project',
  type: 'object',
  required: ['id', 'uuid', 'name', 'api_token', 'timezone', 'anonymize_ips', 'created_at'],
  properties: {
    id: { type: 'integer' },
    uuid: { type: 'string', format: 'uuid' },
    name: { type: 'string' },
    api_token: { type: ['string', 'null'], description: 'The project API key that SDKs send. It is public. Null when all are expired.' },
    timezone: { type: 'string', description: 'IANA name.' },
    anonymize_ips: { type: 'boolean', description: 'The addresses of clients are not stored.' },
    created_at: { type: 'string', format: 'date-time' }
  }
} as const

const ownUserSchema = {
  type: 'object',
  required: [...userSummarySchema.required, 'team', 'personal_api_key'],
  properties: {
    ...userSummarySchema.properties,
    team: {
      type: ['object', 'null'],
      description: 'The project that @current stands for; null when the key has access to none.',
      required: ['id', 'uuid', 'name'],
      properties: { id: { type: 'integer' }, uuid: { type: 'string', format: 'uuid' }, name: { type: 'string' } }
    },
    personal_api_key: {
      type: 'object',
      description: 'What the key of this request may do.',
      required: ['scopes', 'scoped_teams'],
      properties: {
        scopes: { type: 'array', items: { type: 'string' } },
        scoped_teams: { type: ['array', 'null'], items: { type: 'integer' }, description: 'Ids of its projects; null for all.' }
      }
    }
  }
} as const

interface Project {
  id: number
  uuid: string
  name: string
}

/** What a script asks first: whose key it has, and for which projects. */
export async function accountRoutes (
  app: FastifyInstance, { sql, publicUrl }: { sql: Sql, publicUrl: string }
): Promise<void> {
  app.addSchema(projectSchema)

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
  }, async (request) => {
    const [project] = await readProjects(sql, [accessOf(request).projectId], { limit: 1, offset: 0 })
    if (project === undefined) throw notFound()
    return project
  })
}

/** Projects with the key that SDKs should send, by id. */
async function readProjects (
  sql: Sql, ids: readonly number[] | null, { limit, offset }: PageQuery
): Promise<Project[]> {
  return await sql<Project[]>`
    SELECT id, uuid, name, timezone, anonymize_ips, created_at, (
      SELECT api_key FROM project_api_keys k WHERE k.project_id = p.id AND kind = 'project' AND (expires_at IS NULL OR expires_at > now())
      ORDER BY expires_at NULLS FIRST, created_at LIMIT 1
    ) AS api_token
    FROM projects p WHERE ${ids}::integer[] IS NULL OR id = ANY(${ids}::integer[])
    ORDER BY id LIMIT ${limit} OFFSET ${offset}`
}
