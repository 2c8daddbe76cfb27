import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { describeClickHouseError } from '../../http/describe-clickhouse-error.ts'
import { checkStoredEvents } from './check-stored-events.ts'
import { inferSchema } from './infer-schema.ts'
import { readSchemaCounts } from './read-schema-counts.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { answerLookBack, LINES_DESCRIPTION } from '../answer-look-back.ts'
import { answerInTime } from '../../http/errors.ts'
import { cursorQueryProperties, searchQueryProperties } from '../../http/list-queries.ts'
import { buildPage, pageQueryProperties, pageSchema } from '../../http/pagination.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { deleteDefinition } from '../change-definitions.ts'
import {
  countsQuerySchema, type DefinitionQuery, findDefinition, listCounted, listDefinitions, listVersions,
  type VersionQuery, versionQueryProperties
} from '../versioned-definitions.ts'
import {
  EVENT_SCHEMAS, type CheckFields, checkBodySchema, type EventSchema, type EventSchemaChange, eventSchemaChangesSchema,
  eventSchemaSchema, type InferFields, inferBodySchema, inferredSchema, type NewEventSchema, newEventSchemaSchema,
  predictionSchema, schemaCountsSchema, versionSchema
} from './event-schema.ts'
import { compileDraft, createEventSchema, updateEventSchema } from './write-event-schema.ts'

const read = { scope: 'event_definition:read' } as const
const write = { scope: 'event_definition:write' } as const
const tags = ['event schemas']
const one = { $ref: 'EventSchema#' }
const idParams = { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } } as const

interface SchemaParams {
  Params: { project_id: string, id: number }
}

const listQuery = {
  type: 'object',
  properties: {
    ...pageQueryProperties,
    ...searchQueryProperties,
    active: { type: 'boolean', description: 'true: only schemas with an active version; false: only the others. Default: both.' },
    ...cursorQueryProperties
  }
}

/**
 * A schema has 64 KiB at most, six times as much when each character is escaped. Only a larger body takes the API so
 * long to read that others wait for more than 50 ms, on a slow machine (`test/security/hostile-schemas.test.ts`).
 */
const MAX_BODY_BYTES = 524_288

/** Management of the event schemas of a project. Ingest follows a change within a second. */
export async function eventSchemaRoutes (
  app: FastifyInstance, deps: { sql: Sql, clickhouse: ClickHouse, publicUrl: string, now: () => number }
): Promise<void> {
  const { sql } = deps
  app.addSchema(eventSchemaSchema)

  app.get<{ Querystring: DefinitionQuery }>('/', {
    config: read,
    schema: {
      tags, summary: 'List event schemas', description: 'By name of the event.', querystring: listQuery,
      response: { 200: pageSchema(one) }
    }
  }, async (request) => {
    const query = { projectId: accessOf(request).projectId, ...request.query }
    return buildPage(request, deps.publicUrl, await listDefinitions(sql, EVENT_SCHEMAS, query))
  })

  app.post<{ Body: NewEventSchema }>('/', {
    bodyLimit: MAX_BODY_BYTES,
    config: write,
    schema: {
      tags, summary: 'Create an event schema', body: newEventSchemaSchema, response: { 201: one },
      description: 'Not enforced before a version is active.'
    }
  }, async (request, reply) => {
    const { projectId, userId } = accessOf(request)
    return await reply.code(201).send(await createEventSchema(sql, { projectId, userId }, request.body))
  })

  app.get<{ Querystring: { days?: number } }>('/counts', {
    config: read,
    schema: {
      tags, summary: 'Count events held against schemas', querystring: countsQuerySchema, response: { 200: schemaCountsSchema },
      description: 'How many events ingest checked by each schema, and how many of them did not meet it.'
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    const query = { projectId, days: request.query.days ?? 7, now: deps.now() }
    const schemas = await listCounted<EventSchema>(sql, EVENT_SCHEMAS, projectId)
    return { results: await answerInTime(readSchemaCounts(deps.clickhouse, query, schemas)) }
  })

  app.get<SchemaParams>('/:id', {
    config: read,
    schema: { tags, summary: 'Retrieve an event schema', params: idParams, response: { 200: one } }
  }, async (request) => await findDefinition(sql, EVENT_SCHEMAS, keyOf(request)))

  app.get<SchemaParams & { Querystring: VersionQuery }>('/:id/versions', {
    config: read,
    schema: {
      tags, summary: 'List the versions of an event schema', description: 'Newest first.', params: idParams,
      querystring: { type: 'object', properties: { ...pageQueryProperties, ...versionQueryProperties, ...cursorQueryProperties } },
      response: { 200: pageSchema(versionSchema) }
    }
  }, async (request) => {
    const versions = await listVersions(sql, EVENT_SCHEMAS, { ...keyOf(request), ...request.query })
    return buildPage(request, deps.publicUrl, versions)
  })

  app.patch<SchemaParams & { Body: EventSchemaChange }>('/:id', {
    bodyLimit: MAX_BODY_BYTES,
    config: write,
    schema: {
      tags, summary: 'Update an event schema', params: idParams, body: eventSchemaChangesSchema, response: { 200: one },
      description: 'Another schema makes a version; active_version says which one is enforced. With `version`, 409 `conflict` ' +
        'when there is another one by now.'
    }
  }, async (request) =>
    await updateEventSchema(sql, keyOf(request), { fields: request.body, userId: accessOf(request).userId }))

  app.post<SchemaParams & { Body: CheckFields }>('/:id/check', {
    bodyLimit: MAX_BODY_BYTES,
    // It shows values of stored events.
    config: { scope: 'event:read' },
    // No body means the newest version and the defaults.
    preValidation: async (request) => { request.body ??= {} },
    schema: {
      tags, summary: 'Check stored events by a schema', params: idParams, body: checkBodySchema,
      response: { 200: predictionSchema },
      description: 'Says what the schema would have done with events that are stored: how many would not have met ' +
        'it, why, and from which SDK. Stores nothing. ' + LINES_DESCRIPTION
    }
  }, async (request, reply) => {
    const { projectId } = accessOf(request)
    const { event, schema } = await findDefinition(sql, EVENT_SCHEMAS, keyOf(request))
    const { days = 7, limit = 1_000_000 } = request.body
    const compiled = compileDraft(request.body.schema ?? schema)
    const query = { projectId, event, days, limit, now: deps.now() }
    return await answerLookBack(request, reply, async (options) => {
      const { libs, ...prediction } = await checkStoredEvents(deps.clickhouse, compiled, { ...query, ...options })
      return { ...prediction, libs: libs.map(({ libVersion, ...lib }) => ({ ...lib, lib_version: libVersion })) }
    })
  })

  app.post<{ Body: InferFields }>('/infer', {
    // It shows values of stored events.
    config: { scope: 'event:read' },
    schema: {
      tags, summary: 'Make a draft of an event schema from stored events', body: inferBodySchema,
      response: { 200: inferredSchema },
      description: 'Names, types, which properties all events have, and the values of those that have few. Stores nothing.'
    }
  }, async (request) => {
    const { event, days = 30, limit = 100_000, include_sdk: includeSdk = false } = request.body
    const query = { projectId: accessOf(request).projectId, event, days, limit, includeSdk, now: deps.now() }
    return await inferSchema(deps.clickhouse, query)
      .catch((error: unknown) => { throw describeClickHouseError(error) })
  })

  app.delete<SchemaParams>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Delete an event schema', params: idParams,
      description: 'It is no longer enforced. Another one of the same event has a history of its own, whose numbers go on.',
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    await deleteDefinition(sql, EVENT_SCHEMAS, keyOf(request))
    return await reply.code(204).send()
  })
}

function keyOf (request: FastifyRequest<SchemaParams>): { projectId: number, id: number } {
  return { projectId: accessOf(request).projectId, id: request.params.id }
}
