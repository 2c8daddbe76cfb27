import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { propertyProfileRoutes } from './definition-profile-routes.ts'
import { bulkNoteRoutes } from './definition-notes.ts'
import { answerDefinitions, definitionPageSchema } from './definition-page.ts'
import { uuidParams, type UuidParams } from '../http/request-values.ts'
import { deleteDefinition, updatePropertyDefinition } from './write-definition.ts'
import { listPropertyDefinitions } from './list-property-definitions.ts'
import { findPropertyDefinition, type PropertyDefinitionChanges, propertyDefinitionChangesSchema, propertyDefinitionSchema } from './property-definition.ts'
import { type PropertyDefinitionQuery, propertyDefinitionQuerySchema } from './property-query.ts'

const read = { scope: 'property_definition:read' } as const
const write = { scope: 'property_definition:write' } as const
const TAG = 'property definitions'
const tags = [TAG]
const one = { $ref: 'PropertyDefinition#' }

/** Property definitions of a project (docs/reference/contract/service.md 4.2), from Postgres, values excepted. */
export async function propertyDefinitionRoutes (
  app: FastifyInstance,
  deps: { sql: Sql, clickhouse: ClickHouse, cluster?: string, publicUrl: string, now: () => number }
): Promise<void> {
  const { sql } = deps
  app.addSchema(propertyDefinitionSchema)
  const { clickhouse, now, cluster = '' } = deps
  await app.register(propertyProfileRoutes, { sql, clickhouse, now, cluster })
  await app.register(bulkNoteRoutes, { sql, scope: write.scope, tag: TAG, table: 'property_definitions' })

  app.get<{ Querystring: PropertyDefinitionQuery }>('/', {
    config: read,
    schema: {
      tags, summary: 'List property definitions', querystring: propertyDefinitionQuerySchema,
      description: 'Properties that were seen on event_names first, then by name.',
      response: { 200: definitionPageSchema(one) }
    }
  }, async (request, reply) => {
    const page = await listPropertyDefinitions(sql, accessOf(request).projectId, request.query)
    return answerDefinitions({ request, reply, publicUrl: deps.publicUrl }, page)
  })

  app.get<UuidParams>('/:id', {
    config: read,
    schema: { tags, summary: 'Retrieve a property definition', params: uuidParams, response: { 200: one } }
  }, async (request) => await findPropertyDefinition(sql, accessOf(request).projectId, request.params.id))

  app.patch<UuidParams & { Body: PropertyDefinitionChanges }>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Update a property definition', params: uuidParams, body: propertyDefinitionChangesSchema,
      response: { 200: one }
    }
  }, async (request) => {
    const key = { projectId: accessOf(request).projectId, id: request.params.id }
    return await updatePropertyDefinition(sql, key, request.body)
  })

  app.delete<UuidParams>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Delete a property definition', params: uuidParams,
      description: 'The property stays in its events; the next event with it creates a new definition.',
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    await deleteDefinition(sql, 'property', { projectId: accessOf(request).projectId, id: request.params.id })
    return await reply.code(204).send()
  })
}
