import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { object, optional, type Row, string, time, type Value } from '../http/json-schema.ts'
import { newestBy, selectPage } from '../http/list-queries.ts'
import type { Access } from '../http/personal-key-access.ts'
import { parseIsoDateTime } from '../http/request-values.ts'
import { pageQuery, routesOf } from '../http/routes.ts'

const MAX_ID = 2_147_483_647

const filters = {
  project_id: { type: 'integer', minimum: 1, maximum: MAX_ID, description: 'Only lines about this project.' },
  user_id: { type: 'integer', minimum: 1, maximum: MAX_ID, description: 'Only actions of this user.' },
  kind: { ...string, maxLength: 20, description: 'create, change, delete, act, read, login, logout, refusal or trim.' },
  object: { ...string, maxLength: 63, description: 'A table such as feature_flags, or persons, sql or record; for logins, the method.' },
  object_id: { ...string, maxLength: 200 },
  from: { ...time, description: 'Only lines of this time or later.' },
  to: { ...time, description: 'Only lines before this time.' }
} as const

const filterSchema = optional(filters)
const recordQuery = pageQuery(filters)

const nullableInteger = { type: ['integer', 'null'] } as const
const anyOrNull = { type: ['object', 'null'], additionalProperties: true } as const

const lineSchema = object({
  id: { type: 'integer' },
  at: time,
  project_id: { ...nullableInteger, description: 'Null: about the installation.' },
  user_id: { ...nullableInteger, description: 'Null: a change made directly in Postgres, or an unknown user.' },
  user: { type: ['string', 'null'], description: 'Mail address of the user.' },
  key_id: { type: ['string', 'null'], format: 'uuid', description: 'Personal key; null for a session without one.' },
  key_label: { type: ['string', 'null'] },
  address: { type: ['string', 'null'] },
  kind: string,
  object: string,
  object_id: string,
  before: { ...anyOrNull, description: 'The row before a change, without secrets.' },
  after: { ...anyOrNull, description: 'The row after it.' },
  detail: { ...anyOrNull, description: 'For reads: method, path, query and body.' },
  rows: { ...nullableInteger, description: 'Rows read; null if the read did not finish.' }
}, { $id: 'RecordLine' })

type Line = Row<typeof lineSchema>

/** Lines that an export reads at once. */
const EXPORT_LINES = 1000

/** The record, for administrators: of their projects, or of all with the installation. Nothing here changes it. */
export async function recordRoutes (
  app: FastifyInstance, { sql, publicUrl }: { sql: Sql, publicUrl: string }
): Promise<void> {
  const routes = routesOf(app, { tag: 'installation', object: 'user', publicUrl })
  app.addSchema(lineSchema)

  routes.list('/record', {
    scope: '*', summary: 'List the record', query: recordQuery, item: { $ref: 'RecordLine#' },
    description: 'Changes, logins, refusals, and reads of persons and SQL, newest first.'
  }, async ({ query }, access) => await selectPage<Line>(sql, query, {
    order: 'newest lines', keys: newestBy(sql`r.id`), select: columns(sql), from: lines(sql), where: matches(sql, query, access)
  }))

  routes.get('/record/export', {
    scope: '*', summary: 'Export the record', config: { recorded: 'record', isEndless: true },
    description: 'JSON lines, oldest first, with the same filters.', query: filterSchema,
    answers: { 200: { description: 'The lines.', content: { 'application/x-ndjson': { schema: { type: 'string' } } } } }
  }, async ({ query, recordRows }, access, reply) =>
    await reply.type('application/x-ndjson').header('content-disposition', 'attachment; filename="record.jsonl"')
      .send(Readable.from(exportLines(sql, matches(sql, query, access), recordRows))))
}

async function * exportLines (sql: Sql, where: Statement, recordRows: FastifyRequest['recordRows']): AsyncGenerator<string> {
  for (let [last, rows] = [0, 0]; ;) {
    const page = await sql<Line[]>`
      SELECT ${columns(sql)} FROM ${lines(sql)} WHERE ${where} AND r.id > ${last}::bigint ORDER BY r.id LIMIT ${EXPORT_LINES}`
    if (page.length > 0) yield page.map((line) => `${JSON.stringify(line)}\n`).join('')
    rows += page.length
    if (page.length < EXPORT_LINES) return await recordRows?.(rows)
    last = page.at(-1)?.id ?? 0
  }
}

function lines (sql: Sql): Statement {
  return sql`record r LEFT JOIN users u ON u.id = r.user_id LEFT JOIN personal_api_keys k ON k.id = r.key_id`
}

function columns (sql: Sql): Statement {
  return sql`r.id::integer, r.at, r.project_id, r.user_id, u.email AS user, r.key_id, k.label AS key_label, r.address, r.kind, r.object,
    r.object_id, r.before, r.after, r.detail, r.rows::integer`
}

function matches (sql: Sql, query: Value<typeof filterSchema>, { projectIds }: Access): Statement {
  const { project_id: project = null, user_id: user = null, kind = null, object = null, object_id: id = null } = query
  const [from = null, to = null] = [parseIsoDateTime(query.from), parseIsoDateTime(query.to)]
  return sql`(${projectIds}::integer[] IS NULL OR r.project_id = ANY(${projectIds}::integer[]))
    AND (${project}::integer IS NULL OR r.project_id = ${project}) AND (${user}::integer IS NULL OR r.user_id = ${user})
    AND (${kind}::text IS NULL OR r.kind = ${kind}) AND (${object}::text IS NULL OR r.object = ${object})
    AND (${id}::text IS NULL OR r.object_id = ${id})
    AND (${from}::timestamptz IS NULL OR r.at >= ${from}) AND (${to}::timestamptz IS NULL OR r.at < ${to})`
}

const DAY_MS = 86_400_000

/** Deletes lines that are older than the setting says; a line remains that says so. @param days  0: keep all. */
export async function trimRecord (sql: Sql, { days, now }: { days: number, now: number }): Promise<void> {
  if (days > 0) await sql`DELETE FROM record WHERE at < ${new Date(now - days * DAY_MS)}`
}
