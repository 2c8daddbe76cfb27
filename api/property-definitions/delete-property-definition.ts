import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors/not-found.ts'

/**
 * Forgets a definition with what was written to it; the property stays in its events. The next event that carries it
 * makes a new one.
 *
 * @throws {HttpError} 404.
 */
export async function deletePropertyDefinition (sql: Sql, projectId: number, id: string): Promise<void> {
  const { count } = await sql`DELETE FROM property_definitions WHERE project_id = ${projectId} AND id = ${id}`
  if (count === 0) throw notFound()
}
