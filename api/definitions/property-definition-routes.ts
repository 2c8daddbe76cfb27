import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { allowsScope } from '../../schema/scopes.ts'
import { answerInTime, orNotFound } from '../http/answer-errors.ts'
import { askRows } from '../http/describe-clickhouse-error.ts'
import { array, object, optional } from '../http/json-schema.ts'
import { byName, type KeyedList, matchSearch } from '../http/list-queries.ts'
import type { Access } from '../http/personal-key-access.ts'
import { uuidParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { matchNotes } from './definition-notes.ts'
import { answerDefinitions, definitionPageSchema } from './definition-page.ts'
import { profileDays, type ProfiledProperty, profileProperty, propertyProfileSchema } from './definition-profile.ts'
import {
  findPropertyDefinition, propertyDefinitionChangesSchema,
  propertyDefinitionSchema, selectPropertyDefinition
} from './property-definition.ts'
import {
  HIDDEN_EVENT_PROPERTIES, type PropertyDefinitionQuery, propertyDefinitionQuerySchema, type PropertyFilter,
  readPropertyFilter
} from './property-query.ts'
import { deleteDefinition, updatePropertyDefinition } from './write-definition.ts'

const one = { $ref: 'PropertyDefinition#' }

/** Properties of an answer about volumes: as many as the console offers. */
const MAX_VOLUMES = 500

const MAX_SECONDS = 10

const volumesQuery = optional({
  type: { type: 'string', enum: ['event', 'person'], default: 'event', description: 'Owner of the properties.' }
})

/** Property definitions of a project (docs/reference/contract/service.md 4.2), from Postgres, values excepted. */
export async function propertyDefinitionRoutes (
  app: FastifyInstance,
  deps: { sql: Sql, clickhouse: ClickHouse, publicUrl: string, now: () => number }
): Promise<void> {
  const { sql, clickhouse, now, publicUrl } = deps
  const routes = routesOf(app, { tag: 'property definitions', object: 'property_definition' })
  app.addSchema(propertyDefinitionSchema)

  routes.get('/:id/profile', {
    summary: 'Show the types and values of a property', params: uuidParams, answer: propertyProfileSchema
  }, async ({ params: { id } }, { projectId, scopes }) => {
    const [found] = await sql<(Omit<ProfiledProperty, 'groupType' | 'projectId'> & { group_type: string })[]>`
      SELECT name, type, group_type FROM property_definitions
      WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
    const { name, type, group_type: groupType } = orNotFound(found)
    const { firstDay, from } = profileDays(now())
    // A value is content of an event, which not every key for definitions may see.
    const options = { firstDay, withSamples: allowsScope(scopes, 'event:read') }
    return { from, ...await answerInTime(profileProperty(clickhouse, { projectId, name, type, groupType }, options)) }
  })

  routes.get('/', {
    summary: 'List property definitions', query: propertyDefinitionQuerySchema, answer: definitionPageSchema(one),
    description: 'Properties seen on event_names first, then by name.'
  }, async (request, access, reply) => {
    const list = propertyDefinitionList(sql, access, request.query)
    return await answerDefinitions(sql, list, { request, reply, publicUrl, projectId: access.projectId })
  })

  routes.get('/volumes', {
    summary: 'Count events by property', query: volumesQuery,
    description: `Number of events that carried each property or set it on a person, for the ${MAX_VOLUMES} most frequent properties, without internal SDK properties.`,
    answer: object({ results: array(object({ name: { type: 'string' }, volume: { type: 'integer' } })) })
  }, async ({ query: { type } }, { projectId }) => {
    const results = await askRows<{ name: string, volume: number }>(clickhouse, `
      SELECT property AS name, toFloat64(sum(count)) AS volume FROM event_properties
      WHERE project_id = {project: UInt32} AND kind = {kind: String} AND property NOT IN {hidden: Array(String)}
      GROUP BY property ORDER BY volume DESC, name LIMIT ${MAX_VOLUMES} SETTINGS max_execution_time = ${MAX_SECONDS}`,
    { project: projectId, kind: type, hidden: HIDDEN_EVENT_PROPERTIES })
    return { results }
  })

  routes.get('/:id', {
    summary: 'Retrieve a property definition', params: uuidParams, answer: one
  }, async ({ params: { id } }, { projectId }) => await findPropertyDefinition(sql, projectId, id))

  routes.patch('/:id', {
    summary: 'Update a property definition', params: uuidParams, body: propertyDefinitionChangesSchema, answer: one
  }, async ({ params: { id }, body }, { projectId }) => await updatePropertyDefinition(sql, { projectId, id }, body))

  routes.delete('/:id', {
    summary: 'Delete a property definition', params: uuidParams,
    description: 'Stored events keep the property; the next event that carries it creates a new definition.'
  }, async ({ params: { id } }, { projectId }) => { await deleteDefinition(sql, 'property', { projectId, id }) })
}

/**
 * First the ones seen on the events of the request, then by name.
 *
 * @throws {HttpError} 400 for an invalid filter.
 */
function propertyDefinitionList (sql: Sql, access: Access, query: PropertyDefinitionQuery): KeyedList {
  const filter = readPropertyFilter(query)
  const isSeen = selectIsSeen(sql, filter)
  return {
    order: nameOrder(filter), select: selectPropertyDefinition(sql, isSeen), from: sql`property_definitions AS d`,
    where: buildCondition(sql, access, filter),
    keys: [{ by: sql`CASE WHEN ${isSeen} THEN 0 ELSE 1 END`, kind: 'integer' }, ...byName(sql, { name: sql`d.name`, id: sql`d.id` }, access)]
  }
}

/** Different event names have different orders; a digest keeps the cursor short however many there are. */
function nameOrder ({ eventNames }: PropertyFilter): string {
  return `seen,name:${hash('sha1', JSON.stringify(eventNames ?? null), 'base64url')}`
}

function selectIsSeen (sql: Sql, { eventNames }: PropertyFilter): Statement {
  if (eventNames === undefined) return sql`NULL::boolean`
  return sql`EXISTS (
    SELECT FROM event_properties e
    WHERE e.project_id = d.project_id AND e.property = d.name AND e.event = ANY(${eventNames}::text[]))`
}

function buildCondition (sql: Sql, access: Access, filter: PropertyFilter): Statement {
  const { projectId } = access
  // An unknown group type has no properties: the comparison with NULL is never true.
  const groupType = filter.groupTypeIndex === undefined
    ? sql`''`
    : sql`(SELECT g.group_type FROM group_types g WHERE g.project_id = ${projectId} AND g.group_type_index = ${filter.groupTypeIndex})`
  return sql`d.project_id = ${projectId} AND d.deleted_at IS NULL AND d.type = ${filter.type} AND d.group_type = ${groupType}
    AND ${matchSearch(sql, sql`d.name`, filter.search, access)}
    AND ${filter.only === undefined ? sql`true` : sql`d.name = ANY(${filter.only}::text[])`}
    AND d.name <> ALL(${filter.without}::text[])
    AND ${filter.onlyNumerical ? sql`d.property_type = 'Numeric'` : sql`true`}
    AND ${matchNotes(sql, filter.notes)}
    AND ${matchFeatureFlag(sql, filter.isFeatureFlag)}
    AND ${filter.mustBeSeen ? selectIsSeen(sql, filter) : sql`true`}`
}

function matchFeatureFlag (sql: Sql, isFeatureFlag: boolean | undefined): Statement {
  if (isFeatureFlag === undefined) return sql`true`
  return isFeatureFlag ? sql`d.name LIKE '$feature/%'` : sql`d.name NOT LIKE '$feature/%'`
}
