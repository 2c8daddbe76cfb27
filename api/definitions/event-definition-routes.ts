import type { FastifyInstance, FastifyRequest } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { answerInTime } from '../http/answer-errors.ts'
import { byName, type KeyedList, matchSearch, type OrderKey, searchQueryProperties } from '../http/list-queries.ts'
import type { Value } from '../http/json-schema.ts'
import type { Access } from '../http/personal-key-access.ts'
import { uuidParams } from '../http/request-values.ts'
import { pageQuery, routesOf } from '../http/routes.ts'
import { matchNotes, noteFiltersSchema } from './definition-notes.ts'
import { answerDefinitions, definitionPageSchema } from './definition-page.ts'
import { eventProfileSchema, profileEvent } from './definition-profile.ts'
import {
  eventDefinitionChangesSchema, eventDefinitionSchema, findEventDefinition, selectEventDefinition
} from './event-definition.ts'
import { declareEventVolumes } from './event-volume-routes.ts'
import { deleteDefinition, updateEventDefinition } from './write-definition.ts'

const EVENT_TYPES = ['all', 'event', 'event_custom', 'event_posthog'] as const

const EVENT_ORDERINGS = ['name', '-name', 'volume_30_day', '-volume_30_day', 'last_seen_at', '-last_seen_at'] as const

const one = { $ref: 'EventDefinition#' }

const listQuery = pageQuery({
  ...searchQueryProperties,
  event_type: {
    type: 'string', enum: EVENT_TYPES, default: 'all',
    description: 'event_posthog: names that begin with $; event_custom: all other names; all, event: both.'
  },
  ...noteFiltersSchema,
  ordering: {
    type: 'string', enum: EVENT_ORDERINGS, default: 'name',
    description: 'Field to sort by, with - descending; then by name.'
  }
})

/** Event definitions of a project (docs/reference/contract/service.md 4.3), from Postgres alone but for the days. */
export async function eventDefinitionRoutes (
  app: FastifyInstance, deps: { sql: Sql, clickhouse: ClickHouse, publicUrl: string, now: () => number }
): Promise<void> {
  const { sql, publicUrl } = deps
  const routes = routesOf(app, { tag: 'event definitions', object: 'event_definition' })
  app.addSchema(eventDefinitionSchema)
  declareEventVolumes(routes, deps)

  routes.get('/:id/profile', {
    summary: 'Show the properties of an event', params: uuidParams, answer: eventProfileSchema
  }, async ({ params: { id } }, { projectId }) => {
    const { name } = await findEventDefinition(sql, projectId, id)
    return await answerInTime(profileEvent(deps.clickhouse, { projectId, name }))
  })

  routes.get('/', {
    summary: 'List event definitions', query: listQuery, answer: definitionPageSchema(one)
  }, async (request, access, reply) => await answerDefinitions(
    sql, eventDefinitionList(sql, access, request.query), { request, reply, publicUrl, projectId: access.projectId }))

  routes.get('/:id', {
    summary: 'Retrieve an event definition', params: uuidParams, answer: one, preValidation: refuseLanguage
  }, async ({ params: { id } }, { projectId }) => await findEventDefinition(sql, projectId, id))

  routes.patch('/:id', {
    summary: 'Update an event definition', params: uuidParams, body: eventDefinitionChangesSchema, answer: one
  }, async ({ params: { id }, body }, { projectId }) => await updateEventDefinition(sql, { projectId, id }, body))

  routes.delete('/:id', {
    summary: 'Delete an event definition', params: uuidParams,
    description: 'Its events stay; the next event of that name creates a new definition.'
  }, async ({ params: { id } }, { projectId }) => { await deleteDefinition(sql, 'event', { projectId, id }) })
}

/**
 * A word in place of an id is a language that `posthog-cli schema pull` requests. The CLI shows our message, which
 * therefore must not ask for a UUID.
 *
 * @throws {HttpError} 404.
 */
async function refuseLanguage (request: FastifyRequest): Promise<void> {
  const { id } = request.params as { id: string }
  if (!/^[a-z]+$/i.test(id)) return
  throw new HttpError(404, 'invalid_request', 'not_found', `Types are not generated for ${id.slice(0, 50)}, only for typescript and json.`)
}

type EventDefinitionQuery = Value<typeof listQuery>

/** Every order ends with the name. */
function eventDefinitionList (sql: Sql, access: Access, query: EventDefinitionQuery): KeyedList {
  const descends = query.ordering.startsWith('-')
  const named = { name: sql`d.name`, id: sql`d.id` }
  const name = byName(sql, named, access)
  const keys: Record<string, OrderKey[]> = {
    name: byName(sql, named, access, descends),
    volume_30_day: [{ by: sql`d.volume_30_day`, kind: 'integer', descends }, ...name],
    // Definitions that were never seen count as the oldest.
    last_seen_at: [{ by: sql`COALESCE(d.last_seen_at, '-infinity')`, kind: 'time', descends }, ...name]
  }
  return {
    order: query.ordering, select: selectEventDefinition(sql), from: sql`event_definitions AS d`,
    keys: keys[query.ordering.replace('-', '')] ?? name,
    where: sql`d.project_id = ${access.projectId} AND d.deleted_at IS NULL AND ${matchType(sql, query.event_type)}
      AND ${matchSearch(sql, sql`d.name`, query.search, access)} AND ${matchNotes(sql, query)}`
  }
}

function matchType (sql: Sql, type: EventDefinitionQuery['event_type']): Statement {
  if (type === 'event_custom') return sql`d.name NOT LIKE '$%'`
  return type === 'event_posthog' ? sql`d.name LIKE '$%'` : sql`true`
}
