import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors/not-found.ts'
import { selectPropertyDefinition, type PropertyDefinition } from './property-definition.ts'

/** @throws {HttpError} 404 when the project has no such definition. */
export async function findPropertyDefinition (sql: Sql, projectId: number, id: string): Promise<PropertyDefinition> {
  const [definition] = await sql<PropertyDefinition[]>`
    SELECT ${selectPropertyDefinition(sql, sql`NULL::boolean`)}
    FROM property_definitions d WHERE d.project_id = ${projectId} AND d.id = ${id} AND d.deleted_at IS NULL`
  if (definition === undefined) throw notFound()
  return definition
}
