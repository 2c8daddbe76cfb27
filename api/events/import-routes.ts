import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { object } from '../http/json-schema.ts'
import { newestBy, selectPage } from '../http/list-queries.ts'
import { idParams as params } from '../http/request-values.ts'
import { type Routes, routesOf } from '../http/routes.ts'
import { selectCreatedBy } from '../projects/users.ts'
import { beginSchema, importDetailSchema, importFilesSchema, importSchema, reportSchema, runSchema } from './import-schemas.ts'
import type { ImportRunner } from './start-import.ts'

const MAX_IMPORTS = 200

const one = { id: { type: 'integer' } } as const
const detail = { $ref: 'ImportDetail#' }

export async function importRoutes (
  app: FastifyInstance, { sql, publicUrl, imports }: { sql: Sql, publicUrl: string, imports: ImportRunner }
): Promise<void> {
  app.addSchema(importSchema)
  app.addSchema(importDetailSchema)
  const routes = routesOf(app, { tag: 'imports', object: 'event', publicUrl })

  async function find (projectId: number, id: number): Promise<object> {
    const [found] = await sql`SELECT ${columns(sql)}, i.files, i.result FROM imports AS i WHERE i.project_id = ${projectId} AND i.id = ${id}`
    return orNotFound(found)
  }

  /** @throws {HttpError} 404, or 409 when it has ended. */
  async function refuse (projectId: number, id: number): Promise<never> {
    await find(projectId, id)
    throw new HttpError(409, 'invalid_request', 'conflict', 'The import has ended.')
  }

  routes.list('/', {
    summary: 'List imports', description: `Newest first. A project keeps ${MAX_IMPORTS} records, running imports before finished ones.`, item: { $ref: 'Import#' }
  }, async ({ query }, { projectId }) => await selectPage<{ id: number }>(sql, query, {
    order: 'newest', select: columns(sql), from: sql`imports AS i`, keys: newestBy(sql`i.id`), where: sql`i.project_id = ${projectId}`
  }))

  routes.post('/', {
    summary: 'Record that an import starts or resumes', description: 'Sent by `millrace import`.',
    body: beginSchema,
    answers: { 200: object(one, { description: 'Resumed.' }), 201: object(one, { description: 'Started.' }) }
  }, async ({ body }, { projectId, userId }, reply) => {
    const { checkpoint, options, files, ...given } = body
    const stored = { ...given, options: sql.json(options), files: sql.json(files) }
    const changes = { ...stored, state: 'running', error: null, result: null, stop_requested_at: null, ended_at: null }
    const [{ id, is_new: isNew }] = await sql<[{ id: number, is_new: boolean }]>`
      INSERT INTO imports ${sql({ ...stored, project_id: projectId, checkpoint, created_by: userId })}
      ON CONFLICT (project_id, checkpoint) DO UPDATE SET ${sql(changes)}, last_reported_at = now() RETURNING id, xmax = 0 AS is_new`
    await sql`DELETE FROM imports WHERE id IN (
      SELECT i.id FROM imports AS i WHERE i.project_id = ${projectId} ORDER BY ${isRunning(sql)} DESC, i.id DESC OFFSET ${MAX_IMPORTS})`
    await reply.code(isNew ? 201 : 200).send({ id })
  })

  runRoutes(routes, imports)

  routes.get('/:id', {
    summary: 'Retrieve an import', params, answer: detail
  }, async ({ params: { id } }, { projectId }) => await find(projectId, id))

  routes.post('/:id/report', {
    summary: 'Report the progress or outcome of an import',
    description: 'Sent by `millrace import` every few seconds. A finished import accepts no reports until it is resumed.',
    params, body: reportSchema,
    answer: object({ stop: { type: 'boolean', description: 'true: a user stopped the import; it can be resumed.' } })
  }, async ({ params: { id }, body }, { projectId }) => {
    const { state, progress, error = null, result = null } = body
    const hasEnded = state !== 'running' && state !== 'proving'
    const [changed] = await sql<{ stop: boolean }[]>`
      UPDATE imports SET state = ${state}, progress = ${sql.json(progress)}, error = ${error}, result = ${result === null ? null : sql.json(result)},
        last_reported_at = now(), ended_at = ${hasEnded ? sql`now()` : null}
      WHERE project_id = ${projectId} AND id = ${id} AND ended_at IS NULL RETURNING stop_requested_at IS NOT NULL AS stop`
    return changed ?? await refuse(projectId, id)
  })

  routes.post('/:id/stop', {
    summary: 'Stop an import', description: 'It stops at its next report. The same command or request resumes it.',
    params, answer: detail
  }, async ({ params: { id } }, { projectId }) => {
    const [changed] = await sql`UPDATE imports SET stop_requested_at = coalesce(stop_requested_at, now())
      WHERE project_id = ${projectId} AND id = ${id} AND ended_at IS NULL RETURNING id`
    return changed === undefined ? await refuse(projectId, id) : await find(projectId, id)
  })

  routes.delete('/:id', {
    summary: 'Delete the record of an import', description: 'Its events stay. Returns 409 while the import runs, because nobody could see or stop it without its record.', params
  }, async ({ params: { id } }, { projectId }) => {
    const deleted = await sql`DELETE FROM imports AS i WHERE i.project_id = ${projectId} AND i.id = ${id} AND NOT ${isRunning(sql)} RETURNING i.id`
    if (deleted.length > 0) return
    await find(projectId, id)
    throw new HttpError(409, 'invalid_request', 'conflict', 'The import is running: stop it first.')
  })
}

/** The same command, run by the API on what lies on the server. */
function runRoutes (routes: Routes, imports: ImportRunner): void {
  routes.get('/files', {
    summary: 'List exports on the server', description: 'Exports copied to the import folder; there is no upload.', answer: importFilesSchema
  }, async (_, { projectId }) => await imports.list(projectId))

  routes.create('/run', {
    summary: 'Run an import on the server',
    description: 'Runs `millrace import` on an export listed by `files`. Also requires the scopes project:read and event:read. Repeating the request resumes a stopped import. An API process runs two imports at a time, of different projects.',
    body: runSchema, answer: object({ id: { type: ['integer', 'null'], description: 'Id of the import; null until its first report.' } })
  }, async ({ body }, access) => ({ id: await imports.run(access, body) }))
}

/** It has not ended, and reported within a minute. */
function isRunning (sql: Sql): Statement {
  return sql`(i.ended_at IS NULL AND i.last_reported_at >= now() - interval '1 minute')`
}

function columns (sql: Sql): Statement {
  return sql`i.id, i.project_id AS team_id, i.source, i.mode, i.options, i.version, i.file_count, i.bytes, i.state, i.progress, i.error,
    i.ended_at IS NULL AND NOT ${isRunning(sql)} AS is_silent,
    ${selectCreatedBy(sql, sql`i.created_by`)}, i.started_at, i.last_reported_at, i.stop_requested_at, i.ended_at`
}
