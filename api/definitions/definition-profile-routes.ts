import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { allowsScope } from '../../schema/scopes.ts'
import { answerInTime, notFound } from '../http/answer-errors.ts'
import { uuidParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import {
  eventProfileSchema, profileDays, type ProfiledProperty, profileEvent, profileProperty, propertyProfileSchema
} from './definition-profile.ts'
import { findEventDefinition } from './event-definition.ts'

interface ProfileDeps { sql: Sql, clickhouse: ClickHouse, now: () => number }

export async function eventProfileRoutes (
  app: FastifyInstance, { sql, clickhouse }: Omit<ProfileDeps, 'now'>
): Promise<void> {
  routesOf(app, { tag: 'event definitions', object: 'event_definition' }).get('/:id/profile', {
    summary: 'Show the properties of an event', params: uuidParams, answer: eventProfileSchema
  }, async ({ params: { id } }, { projectId }) => {
    const { name } = await findEventDefinition(sql, projectId, id)
    return await answerInTime(profileEvent(clickhouse, { projectId, name }))
  })
}

export async function propertyProfileRoutes (
  app: FastifyInstance, { sql, clickhouse, now }: ProfileDeps
): Promise<void> {
  routesOf(app, { tag: 'property definitions', object: 'property_definition' }).get('/:id/profile', {
    summary: 'Show the types and values of a property', params: uuidParams, answer: propertyProfileSchema
  }, async ({ params: { id } }, { projectId, scopes }) => {
    const [found] = await sql<(Omit<ProfiledProperty, 'groupType'> & { group_type: string })[]>`
      SELECT name, type, group_type FROM property_definitions
      WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
    if (found === undefined) throw notFound()
    const property = { projectId, name: found.name, type: found.type, groupType: found.group_type }
    const { firstDay, from } = profileDays(now())
    // A value is content of an event, which not every key for definitions may see.
    const withSamples = allowsScope(scopes, 'event:read')
    return { from, ...await answerInTime(profileProperty(clickhouse, property, { firstDay, withSamples })) }
  })
}
