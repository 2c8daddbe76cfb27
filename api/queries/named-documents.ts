/** What people keep in a project under a name, each kind in a table of one form: questions, boards, alerts and more. */
import type { FastifyInstance } from 'fastify'
import { HttpError, invalidField } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { isUniqueViolation, notFound, orNotFound } from '../http/answer-errors.ts'
import type { ScopeObject } from '../../schema/scopes.ts'
import { object, type Row, writableBody } from '../http/json-schema.ts'
import { byName, matchSearch, searchQueryProperties, selectPage } from '../http/list-queries.ts'
import type { Access } from '../http/personal-key-access.ts'
import { idParams } from '../http/request-values.ts'
import { pageQuery, routesOf } from '../http/routes.ts'
import { originSchemas, selectCreatedBy } from '../projects/users.ts'

const BASED_ON = 'updated_at of the document that the change is based on. If it has changed since, the answer is 409 `conflict` and nothing changes.'

const MAX_DOCUMENTS = 1000

const named = {
  name: { type: 'string', minLength: 1, maxLength: 200, description: 'Unique in the project; for annotations, unique at one time.' },
  description: { type: 'string', maxLength: 3000 }
} as const

const readOnly = {
  id: { type: 'integer' },
  team_id: { type: 'integer', description: 'Id of the project.' },
  ...originSchemas
} as const

type Schemas = Record<string, object>

/** A document as answers show it; `S` are the schemas of the fields that its kind has. */
export type Stored<S extends Schemas> =
  Row<{ type: 'object', required: string[], properties: typeof named & typeof readOnly & S }>

export interface DocumentKind<S extends Schemas> {
  table: 'saved_queries' | 'questions' | 'boards' | 'annotations' | 'exports' | 'targets' | 'alerts'
  id: string
  /** `saved query`, and its plural. */
  noun: string
  plural: string
  fields: S
  /** What fields are that a new one leaves out; the others are required. */
  defaults: Record<string, unknown>
  /** What keys need the scope for. Default: `query`. */
  scope?: ScopeObject
  /** SQL of fields that are shown in another form than they are stored in, such as secrets; the document is `q`. */
  shown?: Record<string, string>
  /** Schemas of fields that only answers have. */
  state?: Schemas
  /**
   * `id` is that of the document which changes.
   *
   * @returns the fields to store, if not the given ones.
   * @throws {HttpError} 400 naming the field that cannot be stored.
   */
  check?: (
    fields: Readonly<Fields>, scope: { sql: Sql, access: Access, projectId: number, id?: number }
  ) => void | Fields | Promise<void | Fields>
}

export interface DocumentKey { projectId: number, id: number }

type Fields = Record<string, unknown>

export async function documentRoutes<S extends Schemas> (
  app: FastifyInstance, { sql, publicUrl }: { sql: Sql, publicUrl: string }, kind: DocumentKind<S>
): Promise<void> {
  const { table, id, noun, plural, fields, defaults, scope = 'query', state = {} } = kind
  const one = { $ref: `${id}#` }
  const writable: Record<string, object> = { ...named, ...fields }
  const changes = writableBody(writable, { ...readOnly, ...state })
  const based = { ...changes, properties: { ...changes.properties, updated_at: { type: 'string', format: 'date-time', description: BASED_ON } } }
  const required = ['name', ...Object.keys(fields).filter((name) => !Object.hasOwn(defaults, name))]
  const { id: ids, team_id: team, ...origin } = readOnly
  app.addSchema({ ...object({ id: ids, team_id: team, ...writable, ...state, ...origin }), $id: id })
  const routes = routesOf(app, { tag: plural, object: scope, publicUrl })

  routes.list('/', {
    summary: `List ${plural}`, description: 'By name.', query: pageQuery(searchQueryProperties), item: one
  }, async ({ query }, access) => await selectPage<Stored<S> & { name: string }>(sql, query, {
    order: 'name', select: columns(sql, kind), from: sql`${sql.unsafe(table)} AS q`, keys: byName(sql, { name: sql`q.name`, id: sql`q.id` }, access),
    where: sql`q.project_id = ${access.projectId} AND ${matchSearch(sql, sql`q.name`, query.search, access)}`
  }))

  routes.create('/', {
    summary: `Create ${withArticle(noun)}`, body: { ...changes, required }, answer: one
  }, async ({ body }, access) => {
    const { projectId, userId } = access
    const given = await storable(sql, { description: '', ...defaults, ...body }, { kind, access, projectId })
    const created = await create(sql, { project_id: projectId, created_by: userId, ...given }, kind)
    return await findDocument(sql, kind, { projectId, id: created })
  })

  routes.get('/:id', {
    summary: `Retrieve ${withArticle(noun)}`, params: idParams, answer: one
  }, async ({ params: { id } }, { projectId }) => await findDocument(sql, kind, { projectId, id }))

  routes.patch('/:id', {
    summary: `Update ${withArticle(noun)}`, params: idParams, body: based, answer: one
  }, async ({ params, body }, access) => {
    const key = { projectId: access.projectId, id: params.id }
    const given = await storable(sql, body, { kind, access, ...key })
    const { updated_at: base = null } = body
    // Clients know milliseconds, so no two changes are of the same one.
    const changed = await sql`
      UPDATE ${sql.unsafe(table)} SET ${Object.keys(given).length === 0 ? sql`` : sql`${sql(given)},`}
        updated_at = greatest(now(), updated_at + interval '1 millisecond')
      WHERE project_id = ${key.projectId} AND id = ${key.id} AND
        (${base}::timestamptz IS NULL OR date_trunc('milliseconds', updated_at) = ${base}::timestamptz) RETURNING id`.catch((error: unknown) => {
      throw isUniqueViolation(error) ? notUnique(noun) : error
    })
    const stored = await findDocument(sql, kind, key)
    if (changed.length === 0) throw outdated(noun)
    return stored
  })

  routes.delete('/:id', { summary: `Delete ${withArticle(noun)}`, params: idParams }, async ({ params }, { projectId }) => {
    await refuseUsed(sql, kind, { projectId, id: params.id })
    const deleted = await sql`DELETE FROM ${sql.unsafe(table)} WHERE project_id = ${projectId} AND id = ${params.id} RETURNING id`
    if (deleted.length === 0) throw notFound()
  })
}

/** @throws {HttpError} 404 when the project has none of this id. */
export async function findDocument<S extends Schemas> (
  sql: Sql, kind: DocumentKind<S>, { projectId, id }: DocumentKey
): Promise<Stored<S>> {
  const [found] = await sql<Stored<S>[]>`
    SELECT ${columns(sql, kind)} FROM ${sql.unsafe(kind.table)} AS q WHERE q.project_id = ${projectId} AND q.id = ${id}`
  return orNotFound(found)
}

function columns<S extends Schemas> (sql: Sql, { fields, state, shown = {} }: DocumentKind<S>): Statement {
  const own = Object.keys({ ...fields, ...state }).map((name) => `${shown[name] ?? `q.${name}`} AS ${name}`).join(', ')
  return sql`q.id, q.project_id AS team_id, q.name, q.description, ${sql.unsafe(own)},
    ${selectCreatedBy(sql, sql`q.created_by`)}, q.created_at, q.updated_at`
}

/** The fields that clients may write, as columns: objects and lists are JSON. */
async function storable<S extends Schemas> (
  sql: Sql, body: Fields, { kind, ...scope }: { kind: DocumentKind<S>, access: Access, projectId: number, id?: number }
): Promise<Fields> {
  const writable = Object.entries(body)
    .filter(([name]) => Object.hasOwn(named, name) || Object.hasOwn(kind.fields, name))
  const given = Object.fromEntries(writable)
  if (typeof given.name === 'string' && given.name.trim() === '') throw invalidField('name', 'This field may not be blank.', 'blank')
  const stored = await kind.check?.(given, { sql, ...scope }) ?? given
  return Object.fromEntries(Object.entries(stored).map(([name, value]) => [name, typeof value === 'object' && value !== null ? sql.json(value) : value]))
}

async function create<S extends Schemas> (
  sql: Sql, row: Fields & { project_id: number }, { table, noun, plural }: DocumentKind<S>
): Promise<number> {
  return await sql.begin(async (tx) => {
    // Those who create at the same time take turns, so that the count holds.
    await tx`SELECT id FROM projects WHERE id = ${row.project_id} FOR NO KEY UPDATE`
    const [counted] = await tx<[{ count: number }]>`SELECT count(*)::integer AS count FROM ${tx.unsafe(table)} WHERE project_id = ${row.project_id}`
    if (counted.count >= MAX_DOCUMENTS) throw invalidField('name', `A project has at most ${MAX_DOCUMENTS} ${plural}: delete one first.`)
    const [stored] = await tx<{ id: number }[]>`INSERT INTO ${tx.unsafe(table)} ${tx(row)} ON CONFLICT DO NOTHING RETURNING id`
    if (stored === undefined) throw notUnique(noun)
    return stored.id
  })
}

/** An alert whose target was deleted would reach nobody, and say so nowhere. */
async function refuseUsed<S extends Schemas> (
  sql: Sql, { table, noun }: DocumentKind<S>, { projectId, id }: DocumentKey
): Promise<void> {
  const [alert] = await sql<{ name: string }[]>`
    SELECT name FROM alerts WHERE project_id = ${projectId} AND (
      about = jsonb_build_object('kind', ${noun.replace(' ', '_')}::text, 'id', ${id}::integer) OR
      (${table === 'targets'} AND targets @> to_jsonb(${id}::integer)))`
  if (alert === undefined) return
  throw new HttpError(400, 'validation_error', 'has_dependents', `The ${noun} is used by the alert ${alert.name}.`)
}

function outdated (noun: string): HttpError {
  return new HttpError(409, 'invalid_request', 'conflict',
    `The ${noun} was changed since you read it, so your change was not saved. Reload it and resolve the conflict.`, { attr: 'updated_at' })
}

function notUnique (noun: string): HttpError {
  return invalidField('name', `There is already ${withArticle(noun)} with this name.`, 'unique')
}

function withArticle (noun: string): string {
  return `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`
}
