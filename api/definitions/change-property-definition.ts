import { HttpError } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { isUniqueViolation } from '../../platform/postgres/postgres-errors.ts'
import { notFound } from '../http/errors.ts'
import { assignNotes, refuseUnknownOwner } from './definition-notes.ts'
import { findPropertyDefinition, type PropertyDefinition, type PropertyDefinitionChanges } from './property-definition.ts'

/**
 * Changes the given fields only, so that concurrent changes of different fields are all kept. A computed value that is
 * replaced is kept until something new arrives that changes it.
 *
 * @throws {HttpError} 404; 400 `unique` when another definition has the new name; 400 when `property_type` and
 *   `is_numerical` contradict each other, or for an unknown owner.
 */
export async function updatePropertyDefinition (
  sql: Sql, projectId: number, id: string, changes: PropertyDefinitionChanges
): Promise<PropertyDefinition> {
  refuseContradiction(changes)
  await refuseUnknownOwner(sql, changes)
  const { name } = changes
  const assignments = [...assignFields(sql, changes), ...assignType(sql, changes), ...assignNotes(sql, changes)]
  if (name === undefined && assignments.length === 0) return await findPropertyDefinition(sql, projectId, id)
  try {
    await sql.begin(async (transaction) => {
      const inside = transaction as unknown as Sql
      if (name !== undefined) await renamePropertyDefinition(inside, projectId, id, name)
      if (assignments.length === 0) return
      const set = assignments.reduce((all, assignment) => sql`${all}, ${assignment}`)
      await inside`
        UPDATE property_definitions SET ${set} WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
    })
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    throw new HttpError(400, 'validation_error', 'unique', 'There is already a property definition with this name.',
      { attr: 'name', cause: error })
  }
  return await findPropertyDefinition(sql, projectId, id)
}

/**
 * Renames a definition. The old name is deleted: it comes back when an event with that property arrives. The values of
 * the definition stay until an event with the new one arrives, as if they had been written.
 */
async function renamePropertyDefinition (sql: Sql, projectId: number, id: string, name: string): Promise<void> {
  // Locks in the order of the roll-up, so that the two cannot deadlock.
  const rows = await sql<NamedRow[]>`
    SELECT found.id, found.name, found.type, found.group_type, found.counted_events, found.last_arrived_at
    FROM property_definitions AS found
    JOIN property_definitions AS renamed USING (project_id, type, group_type)
    WHERE found.project_id = ${projectId} AND renamed.id = ${id} AND renamed.deleted_at IS NULL
      AND (found.id = ${id} OR (found.name = ${name} AND found.deleted_at IS NOT NULL))
    ORDER BY found.name COLLATE "C" FOR UPDATE OF found`
  const current = rows.find((row) => row.id === id)
  if (current === undefined || current.name === name) return
  // Counts belong to the names.
  const deleted = rows.find((row) => row.id !== id)
  if (deleted !== undefined) await sql`DELETE FROM property_definitions WHERE id = ${deleted.id}`
  await sql`
    UPDATE property_definitions SET
      name = ${name}, counted_events = ${deleted?.counted_events ?? 0}, last_arrived_at = ${deleted?.last_arrived_at ?? null},
      renamed_at = clock_timestamp(), query_usage_written_at = clock_timestamp()
    WHERE id = ${id}`
  await sql`
    INSERT INTO property_definitions (project_id, type, group_type, name, deleted_at, counted_events, last_arrived_at)
    VALUES (${projectId}, ${current.type}, ${current.group_type}, ${current.name}, clock_timestamp(),
      ${current.counted_events}, ${current.last_arrived_at})`
}

interface NamedRow {
  id: string
  name: string
  type: string
  group_type: string
  counted_events: number
  last_arrived_at: Date | null
}

function refuseContradiction ({ property_type: type, is_numerical: isNumerical }: PropertyDefinitionChanges): void {
  if (type === undefined || isNumerical === undefined || isNumerical === (type === 'Numeric')) return
  throw new HttpError(400, 'validation_error', 'invalid_input',
    'is_numerical must be true exactly when property_type is Numeric.', { attr: 'is_numerical' })
}

function assignFields (sql: Sql, { tags, query_usage_30_day: usage }: PropertyDefinitionChanges): Statement[] {
  return [
    ...(tags === undefined ? [] : [sql`tags = ${[...new Set(tags)]}::text[]`]),
    ...(usage === undefined ? [] : [sql`query_usage_30_day = ${usage}, query_usage_written_at = clock_timestamp()`])
  ]
}

/** A type that a user sets is marked as such; null returns to inference. */
function assignType (sql: Sql, changes: PropertyDefinitionChanges): Statement[] {
  const { property_type: type, is_numerical: isNumerical } = changes
  if (type !== undefined) return [sql`property_type = ${type}`, sql`property_type_is_manual = ${type !== null}`]
  if (isNumerical === undefined) return []
  if (isNumerical) return [sql`property_type = 'Numeric'`, sql`property_type_is_manual = true`]
  // A type other than Numeric is consistent already.
  return [
    sql`property_type_is_manual = property_type_is_manual OR property_type IS NOT DISTINCT FROM 'Numeric'`,
    sql`property_type = CASE WHEN property_type = 'Numeric' THEN 'String' ELSE property_type END`
  ]
}

/**
 * Deletes a definition with all that was written to it; the property stays in its events. The next event with it
 * creates a new one: the row stays, hidden, because the roll-up must know which events are older than the deletion.
 *
 * @throws {HttpError} 404.
 */
export async function deletePropertyDefinition (sql: Sql, projectId: number, id: string): Promise<void> {
  const { count } = await sql`
    UPDATE property_definitions SET
      deleted_at = clock_timestamp(), id = gen_random_uuid(), tags = '{}', property_type = NULL,
      description = '', owner_id = NULL, verified = false, hidden = false,
      property_type_is_manual = false, query_usage_30_day = 0, renamed_at = NULL, query_usage_written_at = NULL
    WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
  if (count === 0) throw notFound()
}
