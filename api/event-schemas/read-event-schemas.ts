import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { selectCreatedBy } from '../keys/users.ts'
import { notFound } from '../http/errors.ts'
import { matchSearch } from '../http/list-queries.ts'
import type { PageContent, PageQuery } from '../http/pagination.ts'
import { type EventSchema, type EventSchemaVersion, selectEventSchema } from './event-schema.ts'

export interface EventSchemaQuery extends PageQuery {
  search?: string
  active?: boolean
}

/** Which schema: by its id, or by its event. */
export type SchemaKey = { projectId: number } & ({ id: number } | { event: string })

/** The schemas with their newest version. */
function fromSchemas (sql: Sql): Statement {
  return sql`event_schemas AS s JOIN event_schema_versions AS v ON v.schema_id = s.id AND v.version = s.version`
}

/** Lists the schemas of a project by event. There are at most 500. */
export async function listEventSchemas (
  sql: Sql, projectId: number, query: EventSchemaQuery
): Promise<PageContent<EventSchema>> {
  const matches = sql`s.project_id = ${projectId} AND NOT s.deleted
    AND (${query.active ?? null}::boolean IS NULL OR (s.active_version IS NOT NULL) = ${query.active ?? null})
    AND ${matchSearch(sql, sql`s.event`, query.search)}`
  const [counted, results] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*)::integer AS count FROM event_schemas AS s WHERE ${matches}`,
    sql<EventSchema[]>`SELECT ${selectEventSchema(sql)} FROM ${fromSchemas(sql)} WHERE ${matches}
      ORDER BY s.event LIMIT ${query.limit} OFFSET ${query.offset}`
  ])
  return { results, count: counted[0]!.count }
}

/** @throws {HttpError} 404 when the project has no such schema. */
export async function findEventSchema (sql: Sql, key: SchemaKey): Promise<EventSchema> {
  const which = 'id' in key ? sql`s.id = ${key.id}` : sql`s.event = ${key.event}`
  const [found] = await sql<EventSchema[]>`
    SELECT ${selectEventSchema(sql)} FROM ${fromSchemas(sql)}
    WHERE s.project_id = ${key.projectId} AND ${which} AND NOT s.deleted`
  if (found === undefined) throw notFound()
  return found
}

/**
 * Lists the versions of a schema, newest first.
 *
 * @throws {HttpError} 404 when the project has no such schema.
 */
export async function listVersions (
  sql: Sql, key: SchemaKey, query: PageQuery
): Promise<PageContent<EventSchemaVersion>> {
  const { id } = await findEventSchema(sql, key)
  const [counted, results] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*)::integer AS count FROM event_schema_versions WHERE schema_id = ${id}`,
    sql<EventSchemaVersion[]>`
      SELECT v.version, v.schema, ${selectCreatedBy(sql, sql`v.created_by`)}, v.created_at
      FROM event_schema_versions AS v WHERE v.schema_id = ${id}
      ORDER BY v.version DESC LIMIT ${query.limit} OFFSET ${query.offset}`
  ])
  return { results, count: counted[0]!.count }
}
