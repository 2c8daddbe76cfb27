import type { FastifyInstance, FastifyRequest } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import { isUniqueViolation } from '../../platform/postgres/postgres-errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import { cursorQueryProperties, matchSearch, searchQueryProperties, selectPage } from '../http/list-queries.ts'
import { buildPage, type PageContent, pageQueryProperties, type PageQuery, pageSchema } from '../http/pagination.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { selectCreatedBy, userSummarySchema } from '../projects/users.ts'
import type { Row, Value } from '../http/json-schema.ts'

/** Saved queries of a project. */
const MAX_QUERIES = 1000

/** How a result is drawn. */
export type ChartChoice = NonNullable<Value<typeof writable.chart>>

/** A saved query as answers show it. */
type SavedQuery = Row<{ type: 'object', required: string[], properties: typeof writable & typeof readOnly }>

type SavedQueryFields = Partial<Pick<SavedQuery, keyof typeof writable>>
type NewSavedQuery = SavedQueryFields & Pick<SavedQuery, 'name' | 'query'>

const columnName = { type: 'string', maxLength: 400 } as const

const writable = {
  name: { type: 'string', minLength: 1, maxLength: 200, description: 'Unique in the project.' },
  description: { type: 'string', maxLength: 3000 },
  query: { type: 'string', minLength: 1, maxLength: 100_000, description: "ClickHouse's SQL; nothing checks it before it runs." },
  parameters: {
    type: 'object', maxProperties: 50, propertyNames: { maxLength: 64 }, additionalProperties: { type: 'string', maxLength: 10_000 },
    description: 'Values of the parameters {name:Type} of the query, by name.'
  },
  chart: {
    type: ['object', 'null'], additionalProperties: false, required: ['kind'],
    properties: {
      kind: { type: 'string', enum: ['line', 'bar'] },
      x: { ...columnName, description: 'Column of the horizontal axis.' },
      y: { type: 'array', maxItems: 10, items: columnName, description: 'Columns that are drawn.' }
    },
    description: 'How the result is drawn; null: as a table.'
  }
} as const

const readOnly = {
  id: { type: 'integer' },
  team_id: { type: 'integer', description: 'Id of the project.' },
  created_by: userSummarySchema,
  created_at: { type: 'string', format: 'date-time' },
  updated_at: { type: 'string', format: 'date-time' }
} as const

const order = ['id', 'team_id', 'name', 'description', 'query', 'parameters', 'chart', 'created_by', 'created_at', 'updated_at'] as const
const properties: Record<string, object> = { ...writable, ...readOnly }

const savedQuerySchema = {
  $id: 'SavedQuery', type: 'object', required: order, properties: Object.fromEntries(order.map((name) => [name, properties[name]]))
}

/** Clients may send back a whole saved query: read-only fields are accepted and ignored. */
const changesSchema = {
  type: 'object', additionalProperties: false,
  properties: { ...writable, ...Object.fromEntries(Object.keys(readOnly).map((name) => [name, { readOnly: true }])) }
}

const read = { scope: 'query:read' } as const
const write = { scope: 'query:write' } as const
const tags = ['saved queries']
const one = { $ref: 'SavedQuery#' }
const params = { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } } as const

interface SavedQueryParams {
  Params: { project_id: string, id: number }
}

/** The queries that people keep in the console. They run there, and not here. */
export async function savedQueryRoutes (
  app: FastifyInstance, { sql, publicUrl }: { sql: Sql, publicUrl: string }
): Promise<void> {
  app.addSchema(savedQuerySchema)

  app.get<{ Querystring: SavedQueryQuery }>('/', {
    config: read,
    schema: {
      tags, summary: 'List saved queries', description: 'By name.',
      querystring: { type: 'object', properties: { ...pageQueryProperties, ...searchQueryProperties, ...cursorQueryProperties } },
      response: { 200: pageSchema(one) }
    }
  }, async (request) => buildPage(request, publicUrl, await list(sql, accessOf(request).projectId, request.query)))

  app.post<{ Body: NewSavedQuery }>('/', {
    config: write,
    schema: { tags, summary: 'Create a saved query', body: { ...changesSchema, required: ['name', 'query'] }, response: { 201: one } }
  }, async (request, reply) => {
    const { projectId, userId } = accessOf(request)
    return await reply.code(201).send(await create(sql, { projectId, userId }, request.body))
  })

  app.get<SavedQueryParams>('/:id', {
    config: read, schema: { tags, summary: 'Retrieve a saved query', params, response: { 200: one } }
  }, async (request) => await find(sql, keyOf(request)))

  app.patch<SavedQueryParams & { Body: SavedQueryFields }>('/:id', {
    config: write, schema: { tags, summary: 'Update a saved query', params, body: changesSchema, response: { 200: one } }
  }, async (request) => await update(sql, keyOf(request), request.body))

  app.delete<SavedQueryParams>('/:id', {
    config: write,
    schema: { tags, summary: 'Delete a saved query', params, response: { 204: { type: 'null', description: 'Deleted.' } } }
  }, async (request, reply) => {
    const { projectId, id } = keyOf(request)
    const deleted = await sql`DELETE FROM saved_queries WHERE project_id = ${projectId} AND id = ${id} RETURNING id`
    if (deleted.length === 0) throw notFound()
    return await reply.code(204).send()
  })
}

interface QueryKey { projectId: number, id: number }

function keyOf (request: FastifyRequest<SavedQueryParams>): QueryKey {
  return { projectId: accessOf(request).projectId, id: request.params.id }
}

function columns (sql: Sql): Statement {
  return sql`q.id, q.project_id AS team_id, q.name, q.description, q.query, q.parameters, q.chart,
    ${selectCreatedBy(sql, sql`q.created_by`)}, q.created_at, q.updated_at`
}

interface SavedQueryQuery extends PageQuery {
  search?: string
  after?: string
}

async function list (sql: Sql, projectId: number, query: SavedQueryQuery): Promise<PageContent<SavedQuery>> {
  return await selectPage<SavedQuery>(sql, query, {
    order: 'name', kind: 'text', select: columns(sql), from: sql`saved_queries AS q`, key: sql`q.name COLLATE "C"`,
    keyOf: ({ name }) => name, where: sql`q.project_id = ${projectId} AND ${matchSearch(sql, sql`q.name`, query.search)}`
  })
}

/** @throws {HttpError} 404 when the project has no such query. */
async function find (sql: Sql, { projectId, id }: QueryKey): Promise<SavedQuery> {
  const [found] = await sql<SavedQuery[]>`
    SELECT ${columns(sql)} FROM saved_queries AS q WHERE q.project_id = ${projectId} AND q.id = ${id}`
  if (found === undefined) throw notFound()
  return found
}

async function create (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number }, fields: NewSavedQuery
): Promise<SavedQuery> {
  checkName(fields.name)
  const { name, query, description = '', parameters = {}, chart = null } = fields
  const id = await sql.begin(async (tx) => {
    // Those who create at the same time take turns, so that the count holds.
    await tx`SELECT id FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
    const [counted] = await tx<[{ count: number }]>`SELECT count(*)::integer AS count FROM saved_queries WHERE project_id = ${projectId}`
    if (counted.count >= MAX_QUERIES) throw invalid('name', 'invalid_input', `A project has at most ${MAX_QUERIES} saved queries: delete one first.`)
    const [stored] = await tx<{ id: number }[]>`
      INSERT INTO saved_queries (project_id, name, description, query, parameters, chart, created_by)
      VALUES (${projectId}, ${name}, ${description}, ${query}, ${tx.json(parameters)}, ${chart === null ? null : tx.json(chart)}, ${userId})
      ON CONFLICT (project_id, name) DO NOTHING RETURNING id`
    if (stored === undefined) throw notUnique()
    return stored.id
  })
  return await find(sql, { projectId, id })
}

async function update (sql: Sql, key: QueryKey, fields: SavedQueryFields): Promise<SavedQuery> {
  const { name, query, description, parameters, chart } = fields
  if (name !== undefined) checkName(name)
  const changed = await sql`
    UPDATE saved_queries SET name = COALESCE(${name ?? null}, name), query = COALESCE(${query ?? null}, query),
      description = COALESCE(${description ?? null}, description),
      parameters = COALESCE(${parameters === undefined ? null : sql.json(parameters)}, parameters),
      chart = ${chart === undefined ? sql`chart` : chart === null ? null : sql.json(chart)}, updated_at = now()
    WHERE project_id = ${key.projectId} AND id = ${key.id} RETURNING id`.catch((error: unknown) => {
    throw isUniqueViolation(error) ? notUnique() : error
  })
  if (changed.length === 0) throw notFound()
  return await find(sql, key)
}

function checkName (name: string): void {
  if (name.trim() === '') throw invalid('name', 'blank', 'This field may not be blank.')
}

function notUnique (): HttpError {
  return invalid('name', 'unique', 'There is already a saved query with this name.')
}

function invalid (attr: string, code: string, detail: string): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr })
}
