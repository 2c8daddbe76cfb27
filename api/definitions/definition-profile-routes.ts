/** What is known about one definition beyond its row: its events. */
import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { allowsScope } from '../../schema/scopes.ts'
import { answerInTime, notFound } from '../http/errors.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { uuidParams, type UuidParams } from '../http/request-values.ts'
import {
  countProperties, eventProfileSchema, profileDays, type ProfiledProperty, profileEvent, profileProperty,
  propertyProfileSchema
} from './definition-profile.ts'
import { findEventDefinition } from './event-definition.ts'
import { idsQuery, readIds, volumesSchema } from './event-volume-routes.ts'

interface ProfileDeps { sql: Sql, clickhouse: ClickHouse, now: () => number }

/** Routes below one event definition. */
export async function eventProfileRoutes (app: FastifyInstance, { sql, clickhouse, now }: ProfileDeps): Promise<void> {
  const config = { scope: 'event_definition:read' } as const
  const tags = ['event definitions']

  app.get<UuidParams>('/:id/profile', {
    config, schema: { tags, summary: 'Show what sends an event, and its properties', params: uuidParams, response: { 200: eventProfileSchema } }
  }, async (request) => {
    const { projectId } = accessOf(request)
    const { name } = await findEventDefinition(sql, projectId, request.params.id)
    const { firstDay, from } = profileDays(now())
    return { from, ...await answerInTime(profileEvent(clickhouse, { projectId, name }, { firstDay })) }
  })
}

/** Routes below one property definition, and the counts of several by day. */
export async function propertyProfileRoutes (
  app: FastifyInstance, { sql, clickhouse, now }: ProfileDeps
): Promise<void> {
  const config = { scope: 'property_definition:read' } as const
  const tags = ['property definitions']

  app.get<{ Querystring: { ids?: string } }>('/volumes', {
    config, schema: { tags, summary: 'Count events with properties by day', querystring: idsQuery, response: { 200: volumesSchema } }
  }, async (request) => {
    const { projectId } = accessOf(request)
    const found = await findProperties(sql, projectId, readIds(request.query.ids))
    const { firstDay, from } = profileDays(now())
    const volumes = await answerInTime(countProperties(clickhouse, found, { projectId, firstDay }))
    return { from, results: found.map(({ id }, place) => ({ id, volumes: volumes[place] })) }
  })

  app.get<UuidParams>('/:id/profile', {
    config, schema: { tags, summary: 'Show the types, values and senders of a property', params: uuidParams, response: { 200: propertyProfileSchema } }
  }, async (request) => {
    const { projectId, scopes } = accessOf(request)
    const property = await findOne(projectId, request.params.id)
    const { firstDay, from } = profileDays(now())
    // A value is content of an event, which not every key for definitions may see.
    const withSamples = allowsScope(scopes, 'event:read')
    return { from, ...await answerInTime(profileProperty(clickhouse, property, { firstDay, withSamples })) }
  })

  async function findOne (projectId: number, id: string): Promise<ProfiledProperty> {
    const [property] = await findProperties(sql, projectId, [id])
    if (property === undefined) throw notFound()
    return property
  }
}

async function findProperties (
  sql: Sql, projectId: number, ids: readonly string[]
): Promise<(ProfiledProperty & { id: string })[]> {
  const rows = await sql<{ id: string, name: string, type: ProfiledProperty['type'], group_type: string }[]>`
    SELECT id, name, type, group_type FROM property_definitions
    WHERE project_id = ${projectId} AND id = ANY(${ids}::uuid[]) AND deleted_at IS NULL`
  return rows.map(({ id, name, type, group_type: groupType }) => ({ id, projectId, name, type, groupType }))
}
