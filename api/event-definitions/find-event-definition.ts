import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors/not-found.ts'
import { selectEventDefinition, type EventDefinition } from './event-definition.ts'

/** @throws {HttpError} 404 when the project has no such definition. */
export async function findEventDefinition (sql: Sql, projectId: number, id: string): Promise<EventDefinition> {
  const [definition] = await sql<EventDefinition[]>`
    SELECT ${selectEventDefinition(sql)} FROM event_definitions d WHERE d.project_id = ${projectId} AND d.id = ${id} AND d.deleted_at IS NULL`
  if (definition === undefined) throw notFound()
  return definition
}
