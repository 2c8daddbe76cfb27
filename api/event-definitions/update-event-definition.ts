import { HttpError } from '../../platform/errors.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { isUniqueViolation } from '../http/errors/classify-postgres-error.ts'
import { parseIsoDateTime } from '../http/request/iso-date-time.ts'
import { findEventDefinition } from './find-event-definition.ts'
import { type EventDefinition, type EventDefinitionChanges } from './event-definition.ts'

/**
 * Changes the given fields and no others, so that people who change different fields at once lose nothing.
 *
 * @throws {HttpError} 404; 400 `unique` when another definition has the new name.
 */
export async function updateEventDefinition (
  sql: Sql, projectId: number, id: string, changes: EventDefinitionChanges
): Promise<EventDefinition> {
  const columns = toColumns(changes)
  if (Object.keys(columns).length > 0) {
    try {
      await sql`
        UPDATE event_definitions SET ${sql(columns)}, last_updated_at = now()
        WHERE project_id = ${projectId} AND id = ${id}`
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new HttpError(400, 'validation_error', 'unique', 'There is already an event definition with this name.',
        { attr: 'name', cause: error })
    }
  }
  return await findEventDefinition(sql, projectId, id)
}

function toColumns (changes: EventDefinitionChanges): Record<string, string | number | boolean | Date | string[]> {
  const { created_at: createdAt, last_seen_at: lastSeenAt, tags, ...others } = changes
  return {
    ...others,
    ...(tags === undefined ? {} : { tags: [...new Set(tags)] }),
    ...readDate('created_at', createdAt),
    ...readDate('last_seen_at', lastSeenAt)
  }
}

function readDate (column: string, text: string | undefined): Record<string, Date> {
  // The schema let only dates through.
  const date = text === undefined ? undefined : parseIsoDateTime(text)
  return date === undefined ? {} : { [column]: date }
}
