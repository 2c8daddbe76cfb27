/** What is known about one definition beyond its row: its events. */
import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { allowsScope } from '../../schema/scopes.ts'
import { answerInTime, notFound } from '../http/errors.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { uuidParams, type UuidParams } from '../http/request-values.ts'
import {
  eventProfileSchema, profileDays, type ProfiledProperty, profileEvent, profileProperty, propertyProfileSchema
} from './definition-profile.ts'
import { findEventDefinition } from './event-definition.ts'

interface ProfileDeps { sql: Sql, clickhouse: ClickHouse, now: () => number }

/** Routes below one event definition. */
export async function eventProfileRoutes (
  app: FastifyInstance, { sql, clickhouse }: Omit<ProfileDeps, 'now'>
): Promise<void> {
  const config = { scope: 'event_definition:read' } as const
  const tags = ['event definitions']

  app.get<UuidParams>('/:id/profile', {
    config, schema: { tags, summary: 'Show the properties of an event', params: uuidParams, response: { 200: eventProfileSchema } }
  }, async (request) => {
    const { projectId } = accessOf(request)
    const { name } = await findEventDefinition(sql, projectId, request.params.id)
    return await answerInTime(profileEvent(clickhouse, { projectId, name }))
  })
}

/** Routes below one property definition. */
export async function propertyProfileRoutes (
  app: FastifyInstance, { sql, clickhouse, now }: ProfileDeps
): Promise<void> {
  const config = { scope: 'property_definition:read' } as const
  const tags = ['property definitions']

  app.get<UuidParams>('/:id/profile', {
    config, schema: { tags, summary: 'Show the types and values of a property', params: uuidParams, response: { 200: propertyProfileSchema } }
  }, async (request) => {
    const { projectId, scopes } = accessOf(request)
    const property = await findOne(projectId, request.params.id)
    const { firstDay, from } = profileDays(now())
    // A value is content of an event, which not every key for definitions may see.
    const withSamples = allowsScope(scopes, 'event:read')
    return { from, ...await answerInTime(profileProperty(clickhouse, property, { firstDay, withSamples })) }
  })

  async function findOne (projectId: number, id: string): Promise<ProfiledProperty> {
    const [property] = await sql<(Omit<ProfiledProperty, 'groupType'> & { group_type: string })[]>`
      SELECT name, type, group_type FROM property_definitions
      WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
    if (property === undefined) throw notFound()
    return { projectId, name: property.name, type: property.type, groupType: property.group_type }
  }
}
