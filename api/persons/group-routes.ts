import type { FastifyInstance } from 'fastify'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { array, object, type Row, timeOrNull } from '../http/json-schema.ts'
import { matchSearch, searchQueryProperties, selectPage } from '../http/list-queries.ts'
import { pageQuery, routesOf } from '../http/routes.ts'

const groupTypesSchema = object({
  results: array(object({
    group_type: { type: 'string' },
    group_type_index: { type: 'integer', description: 'Index in the project, by order of appearance.' },
    groups: { type: 'integer', description: 'Groups described by `$groupidentify`.' }
  }))
})

const groupSchema = object({
  group_key: { type: 'string' },
  properties: { type: 'object', additionalProperties: true },
  created_at: { ...timeOrNull, description: 'When it was first described; null: known from events only.' }
}, { $id: 'Group' })

const groupQuery = pageQuery({
  ...searchQueryProperties,
  group_type_index: { type: 'integer', minimum: 0, maximum: 2_147_483_647 },
  group_key: { type: 'string', maxLength: 400, description: 'Only the group with this key.' }
})

/** Groups that only events name: the first by key, and those found within the time. */
const NAMED = `
  SELECT DISTINCT groups[type] AS key FROM events WHERE project_id = {project: UInt32} AND ({type: String} AS type) IN mapKeys(groups)
    AND key != '' AND position(key, '\\0') = 0 AND ({key: String} = '' OR key = {key: String})
  ORDER BY key LIMIT 10000 SETTINGS final = 0, max_execution_time = 10`

export async function groupRoutes (
  app: FastifyInstance, { sql, clickhouse, publicUrl }: { sql: Sql, clickhouse: ClickHouse, publicUrl: string }
): Promise<void> {
  const routes = routesOf(app, { tag: 'groups', object: 'person', publicUrl })
  app.addSchema(groupSchema)

  routes.get('/types', { summary: 'List group types', answer: groupTypesSchema }, async (request, { projectId }) => ({
    results: await sql<Row<typeof groupTypesSchema>['results']>`
      SELECT group_type, group_type_index, (
        SELECT count(*)::integer FROM groups WHERE groups.project_id = types.project_id AND groups.group_type_index = types.group_type_index) AS groups
      FROM group_types AS types WHERE project_id = ${projectId} ORDER BY group_type_index`
  }))

  routes.list('/', {
    summary: 'List groups of a type', query: { ...groupQuery, required: ['group_type_index'] }, item: { $ref: 'Group#' },
    description: 'By key: groups described by `$groupidentify`, and up to 10,000 known from events only, if ClickHouse finds them within ten seconds. `search` finds words in the key and in the property `name`.'
  }, async ({ query }, access) => {
    const { projectId } = access
    const { group_type_index: index, group_key: key, search } = query
    const [type] = await sql<{ name: string }[]>`
      SELECT group_type AS name FROM group_types WHERE project_id = ${projectId} AND group_type_index = ${index}`
    const asked = { project: projectId, type: type?.name ?? '', key: key ?? '' }
    const named = type === undefined ? [] : await queryRows<{ key: string }>(clickhouse, NAMED, asked).catch(() => [])
    const described = sql`SELECT group_key, properties, created_at FROM groups WHERE project_id = ${projectId} AND group_type_index = ${index}`
    const page = await selectPage<{ group_key: string, properties: string, created_at: Date | null }>(sql, query, {
      order: 'groups by key',
      select: sql`group_key, properties::text AS properties, created_at`,
      from: sql`(${described} UNION ALL SELECT key, '{}', NULL FROM unnest(${named.map((each) => each.key)}::text[]) AS key
        WHERE NOT EXISTS (${described} AND group_key = key)) AS listed`,
      where: sql`${key === undefined ? sql`true` : sql`group_key = ${key}`}
        AND ${matchSearch(sql, sql`concat_ws(' ', group_key, properties->>'name')`, search, access)}`,
      keys: [{ by: sql`group_key`, kind: 'text' }]
    })
    // `JSON.parse` of the driver would round long numbers.
    const results = page.results.map((group) => ({ ...group, properties: parseStoredJson(group.properties) }))
    return { ...page, results }
  })
}
