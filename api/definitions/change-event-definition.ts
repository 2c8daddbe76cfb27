import { HttpError } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { isUniqueViolation } from '../../platform/postgres/postgres-errors.ts'
import { notFound } from '../http/errors.ts'
import { parseIsoDateTime } from '../http/request-values.ts'
import { assignNotes, refuseUnknownOwner } from './definition-notes.ts'
import { type EventDefinition, type EventDefinitionChanges, findEventDefinition } from './event-definition.ts'

/**
 * Changes the given fields only, so that concurrent changes of different fields are all kept. A computed value that is
 * replaced is marked, and the roll-up keeps it until an event of that name arrives.
 *
 * @throws {HttpError} 404; 400 `unique` when another definition has the new name, `invalid_input` for an
 *   unknown owner.
 */
export async function updateEventDefinition (
  sql: Sql, projectId: number, id: string, changes: EventDefinitionChanges
): Promise<EventDefinition> {
  const { name } = changes
  await refuseUnknownOwner(sql, changes)
  const assignments = assignFields(sql, changes)
  if (name === undefined && assignments.length === 0) return await findEventDefinition(sql, projectId, id)
  try {
    await sql.begin(async (transaction) => {
      const inside = transaction as unknown as Sql
      if (name !== undefined) await renameEventDefinition(inside, projectId, id, name)
      const set = assignments.reduce((all, assignment) => sql`${all}, ${assignment}`, sql`last_updated_at = now()`)
      await inside`
        UPDATE event_definitions SET ${set} WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
    })
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    throw new HttpError(400, 'validation_error', 'unique', 'There is already an event definition with this name.',
      { attr: 'name', cause: error })
  }
  return await findEventDefinition(sql, projectId, id)
}

/**
 * Renames a definition. The old name is deleted: it comes back when an event of that name arrives. The values of the
 * definition stay until an event of the new name arrives, as if they had been written.
 */
async function renameEventDefinition (sql: Sql, projectId: number, id: string, name: string): Promise<void> {
  // Locks in the order of the roll-up, so that the two cannot deadlock.
  const rows = await sql<NamedRow[]>`
    SELECT id, name, counted_events, last_arrived_at FROM event_definitions
    WHERE project_id = ${projectId}
      AND ((id = ${id} AND deleted_at IS NULL) OR (name = ${name} AND deleted_at IS NOT NULL))
    ORDER BY name COLLATE "C" FOR UPDATE`
  const current = rows.find((row) => row.id === id)
  if (current === undefined || current.name === name) return
  // Counts belong to the names.
  const deleted = rows.find((row) => row.id !== id)
  if (deleted !== undefined) await sql`DELETE FROM event_definitions WHERE id = ${deleted.id}`
  await sql`
    UPDATE event_definitions SET
      name = ${name}, counted_events = ${deleted?.counted_events ?? 0}, last_arrived_at = ${deleted?.last_arrived_at ?? null},
      volume_written_at = clock_timestamp(), last_seen_written_at = clock_timestamp(), query_usage_written_at = clock_timestamp()
    WHERE id = ${id}`
  await sql`
    INSERT INTO event_definitions (project_id, name, deleted_at, counted_events, last_arrived_at)
    VALUES (${projectId}, ${current.name}, clock_timestamp(), ${current.counted_events}, ${current.last_arrived_at})`
}

interface NamedRow {
  id: string
  name: string
  counted_events: number
  last_arrived_at: Date | null
}

function assignFields (sql: Sql, changes: EventDefinitionChanges): Statement[] {
  const { volume_30_day: volume, query_usage_30_day: usage, tags, post_to_slack: postToSlack } = changes
  const createdAt = readDate(changes.created_at)
  const lastSeenAt = readDate(changes.last_seen_at)
  return [
    ...(volume === undefined ? [] : [sql`volume_30_day = ${volume}, volume_written_at = clock_timestamp()`]),
    ...(lastSeenAt === undefined ? [] : [sql`last_seen_at = ${lastSeenAt}, last_seen_written_at = clock_timestamp()`]),
    ...(usage === undefined ? [] : [sql`query_usage_30_day = ${usage}, query_usage_written_at = clock_timestamp()`]),
    ...(createdAt === undefined ? [] : [sql`created_at = ${createdAt}`]),
    ...(tags === undefined ? [] : [sql`tags = ${[...new Set(tags)]}::text[]`]),
    ...(postToSlack === undefined ? [] : [sql`post_to_slack = ${postToSlack}`]),
    ...assignNotes(sql, changes)
  ]
}

function readDate (text: string | undefined): Date | undefined {
  // The schema refuses anything else.
  return text === undefined ? undefined : parseIsoDateTime(text)
}

/**
 * Deletes a definition with all that was written to it; its events stay. The next event of that name creates a new one:
 * the row stays, hidden, because the roll-up must know which events are older than the deletion.
 *
 * @throws {HttpError} 404.
 */
export async function deleteEventDefinition (sql: Sql, projectId: number, id: string): Promise<void> {
  const { count } = await sql`
    UPDATE event_definitions SET
      deleted_at = clock_timestamp(), id = gen_random_uuid(), tags = '{}', post_to_slack = false, description = '',
      owner_id = NULL, verified = false, hidden = false, created_by = NULL,
      volume_30_day = 0, last_seen_at = NULL, query_usage_30_day = 0,
      volume_written_at = NULL, last_seen_written_at = NULL, query_usage_written_at = NULL, last_updated_at = now()
    WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
  if (count === 0) throw notFound()
}
