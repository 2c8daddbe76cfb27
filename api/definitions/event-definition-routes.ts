import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { HttpError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { cursorQueryProperties, searchQueryProperties } from '../http/list-queries.ts'
import { pageQueryProperties } from '../http/pagination.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { uuidParams, type UuidParams } from '../http/request-values.ts'
import { deleteDefinition, updateEventDefinition } from './write-definition.ts'
import { type EventDefinitionChanges, eventDefinitionChangesSchema, eventDefinitionSchema, findEventDefinition } from './event-definition.ts'
import { eventProfileRoutes } from './definition-profile-routes.ts'
import { bulkNoteRoutes, noteFiltersSchema } from './definition-notes.ts'
import { answerDefinitions, definitionPageSchema } from './definition-page.ts'
import { eventVolumeRoutes } from './event-volume-routes.ts'
import { EVENT_ORDERINGS, EVENT_TYPES, type EventDefinitionQuery, listEventDefinitions } from './list-event-definitions.ts'

const read = { scope: 'event_definition:read' } as const
const write = { scope: 'event_definition:write' } as const
const TAG = 'event definitions'
const tags = [TAG]
const one = { $ref: 'EventDefinition#' }

const listQuery = {
  type: 'object',
  properties: {
    ...pageQueryProperties,
    ...searchQueryProperties,
    event_type: {
      type: 'string', enum: EVENT_TYPES, default: 'all',
      description: 'event_posthog: names that begin with $; event_custom: the others; all, event: both.'
    },
    ...noteFiltersSchema,
    ordering: {
      type: 'string', enum: EVENT_ORDERINGS, default: 'name',
      description: 'Field to sort by, with - descending; then by name.'
    },
    ...cursorQueryProperties
  }
}

/** Event definitions of a project (docs/reference/contract/service.md 4.3), from Postgres alone but for the days. */
export async function eventDefinitionRoutes (
  app: FastifyInstance, deps: { sql: Sql, clickhouse: ClickHouse, publicUrl: string, now: () => number }
): Promise<void> {
  const { sql } = deps
  app.addSchema(eventDefinitionSchema)
  await app.register(eventVolumeRoutes, { sql, clickhouse: deps.clickhouse, now: deps.now })
  await app.register(eventProfileRoutes, { sql, clickhouse: deps.clickhouse, now: deps.now })
  await app.register(bulkNoteRoutes, { sql, scope: write.scope, tag: TAG, table: 'event_definitions' })

  app.get<{ Querystring: EventDefinitionQuery }>('/', {
    config: read,
    schema: { tags, summary: 'List event definitions', querystring: listQuery, response: { 200: definitionPageSchema(one) } }
  }, async (request, reply) => {
    const page = await listEventDefinitions(sql, accessOf(request).projectId, request.query)
    return answerDefinitions({ request, reply, publicUrl: deps.publicUrl }, page)
  })

  app.get<UuidParams>('/:id', {
    config: read,
    preValidation: refuseLanguage,
    schema: { tags, summary: 'Retrieve an event definition', params: uuidParams, response: { 200: one } }
  }, async (request) => await findEventDefinition(sql, accessOf(request).projectId, request.params.id))

  app.patch<UuidParams & { Body: EventDefinitionChanges }>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Update an event definition', params: uuidParams, body: eventDefinitionChangesSchema,
      response: { 200: one }
    }
  }, async (request) =>
    await updateEventDefinition(sql, { projectId: accessOf(request).projectId, id: request.params.id }, request.body))

  app.delete<UuidParams>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Delete an event definition', params: uuidParams,
      description: 'Its events stay; the next event of that name creates a new definition.',
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    await deleteDefinition(sql, 'event', { projectId: accessOf(request).projectId, id: request.params.id })
    return await reply.code(204).send()
  })
}

/**
 * A word in place of an id is a language that `posthog-cli schema pull` asks for: it shows what we say, and a UUID is
 * not what is missing.
 *
 * @throws {HttpError} 404.
 */
async function refuseLanguage (request: FastifyRequest): Promise<void> {
  const { id } = request.params as UuidParams['Params']
  if (!/^[a-z]+$/i.test(id)) return
  throw new HttpError(404, 'invalid_request', 'not_found', `No types are generated for ${id.slice(0, 50)}: only typescript and json.`)
}
