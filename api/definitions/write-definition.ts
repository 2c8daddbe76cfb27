import { HttpError, invalidField } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { isUniqueViolation, notFound } from '../http/answer-errors.ts'
import { parseIsoDateTime } from '../http/request-values.ts'
import { assign, refuseUnknownOwner } from './definition-notes.ts'
import { type EventDefinition, type EventDefinitionChanges, findEventDefinition } from './event-definition.ts'
import { findPropertyDefinition, type PropertyDefinition, type PropertyDefinitionChanges } from './property-definition.ts'

interface DefinitionKey { projectId: number, id: string }

interface DefinitionTable {
  table: 'event_definitions' | 'property_definitions'
  noun: string
  /** The columns in which names are unique. */
  scope: string
  /** Assigned when one is renamed, so that its values stay until an event of the new name arrives. */
  renamed: string
  /** Assigned when one is deleted, beside what both tables have. */
  cleared: string
}

const EVENTS: DefinitionTable = {
  table: 'event_definitions',
  noun: 'an event definition',
  scope: 'project_id',
  renamed: 'volume_written_at = clock_timestamp(), last_seen_written_at = clock_timestamp()',
  cleared: `post_to_slack = false, created_by = NULL, volume_30_day = 0, last_seen_at = NULL, volume_written_at = NULL,
    last_seen_written_at = NULL, last_updated_at = now()`
}

const PROPERTIES: DefinitionTable = {
  table: 'property_definitions',
  noun: 'a property definition',
  scope: 'project_id, type, group_type',
  renamed: 'renamed_at = clock_timestamp()',
  cleared: 'property_type = NULL, property_type_is_manual = false, renamed_at = NULL'
}

/**
 * Changes the given fields only, so that concurrent changes of different fields are all kept. A computed value that is
 * replaced is marked, and the roll-up keeps it until an event of that name arrives.
 *
 * @throws {HttpError} 404; 400 `unique` when another definition has the new name, `invalid_input` for an
 *   unknown owner.
 */
export async function updateEventDefinition (
  sql: Sql, key: DefinitionKey, changes: EventDefinitionChanges
): Promise<EventDefinition> {
  await refuseUnknownOwner(sql, key.projectId, changes)
  const { name } = changes
  const fields = assignEventFields(sql, changes)
  const assignments = name === undefined && fields.length === 0 ? [] : [sql`last_updated_at = now()`, ...fields]
  await updateDefinition(sql, EVENTS, key, { name, assignments })
  return await findEventDefinition(sql, key.projectId, key.id)
}

/**
 * The same for a property.
 *
 * @throws {HttpError} Also 400 when `property_type` and `is_numerical` contradict each other.
 */
export async function updatePropertyDefinition (
  sql: Sql, key: DefinitionKey, changes: PropertyDefinitionChanges
): Promise<PropertyDefinition> {
  refuseContradiction(changes)
  await refuseUnknownOwner(sql, key.projectId, changes)
  await updateDefinition(sql, PROPERTIES, key, { name: changes.name, assignments: assignPropertyFields(sql, changes) })
  return await findPropertyDefinition(sql, key.projectId, key.id)
}

async function updateDefinition (
  sql: Sql, kind: DefinitionTable, key: DefinitionKey,
  { name, assignments }: { name: string | undefined, assignments: Statement[] }
): Promise<void> {
  if (name === undefined && assignments.length === 0) return
  try {
    await sql.begin(async (transaction) => {
      const inside = transaction as unknown as Sql
      if (name !== undefined) await renameDefinition(inside, kind, key, name)
      if (assignments.length === 0) return
      const set = assignments.reduce((all, assignment) => sql`${all}, ${assignment}`)
      await inside`
        UPDATE ${sql.unsafe(kind.table)} SET ${set}
        WHERE project_id = ${key.projectId} AND id = ${key.id} AND deleted_at IS NULL`
    })
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    throw new HttpError(400, 'validation_error', 'unique', `There is already ${kind.noun} with this name.`,
      { attr: 'name', cause: error })
  }
}

/**
 * Renames a definition. The old name is deleted: it comes back when an event with it arrives. The values of the
 * definition stay until an event with the new name arrives, as if they had been written.
 */
async function renameDefinition (
  sql: Sql, kind: DefinitionTable, { projectId, id }: DefinitionKey, name: string
): Promise<void> {
  const [table, scope] = [sql.unsafe(kind.table), sql.unsafe(kind.scope)]
  // Locks in the order of the roll-up, so that the two cannot deadlock.
  const rows = await sql<{ id: string, name: string, counted_events: number, last_arrived_at: Date | null }[]>`
    SELECT found.id, found.name, found.counted_events, found.last_arrived_at
    FROM ${table} AS found JOIN ${table} AS renamed USING (${scope})
    WHERE project_id = ${projectId} AND renamed.id = ${id} AND renamed.deleted_at IS NULL
      AND (found.id = ${id} OR (found.name = ${name} AND found.deleted_at IS NOT NULL))
    ORDER BY found.name COLLATE "C" FOR UPDATE OF found`
  const current = rows.find((row) => row.id === id)
  if (current === undefined || current.name === name) return
  // Counts belong to the names.
  const deleted = rows.find((row) => row.id !== id)
  if (deleted !== undefined) await sql`DELETE FROM ${table} WHERE id = ${deleted.id}`
  await sql`
    UPDATE ${table} SET
      name = ${name}, counted_events = ${deleted?.counted_events ?? 0}, last_arrived_at = ${deleted?.last_arrived_at ?? null},
      query_usage_written_at = clock_timestamp(), ${sql.unsafe(kind.renamed)}
    WHERE id = ${id}`
  await sql`
    INSERT INTO ${table} (${scope}, name, deleted_at, counted_events, last_arrived_at)
    SELECT ${scope}, ${current.name}, clock_timestamp(), ${current.counted_events}::bigint, ${current.last_arrived_at}::timestamptz
    FROM ${table} WHERE id = ${id}`
}

function assignEventFields (sql: Sql, changes: EventDefinitionChanges): Statement[] {
  const { volume_30_day: volume, post_to_slack: postToSlack } = changes
  const lastSeenAt = parseIsoDateTime(changes.last_seen_at)
  return [
    ...(volume === undefined ? [] : [sql`volume_30_day = ${volume}, volume_written_at = clock_timestamp()`]),
    ...(lastSeenAt === undefined ? [] : [sql`last_seen_at = ${lastSeenAt}, last_seen_written_at = clock_timestamp()`]),
    ...assign(sql, { created_at: parseIsoDateTime(changes.created_at), post_to_slack: postToSlack }),
    ...assignShared(sql, changes)
  ]
}

function assignShared (sql: Sql, changes: EventDefinitionChanges | PropertyDefinitionChanges): Statement[] {
  const { tags, query_usage_30_day: usage, description, owner, verified, hidden } = changes
  return [
    ...(usage === undefined ? [] : [sql`query_usage_30_day = ${usage}, query_usage_written_at = clock_timestamp()`]),
    ...(tags === undefined ? [] : [sql`tags = ${[...new Set(tags)]}::text[]`]),
    ...assign(sql, { description, owner_id: owner, verified, hidden })
  ]
}

function refuseContradiction ({ property_type: type, is_numerical: isNumerical }: PropertyDefinitionChanges): void {
  if (type === undefined || isNumerical === undefined || isNumerical === (type === 'Numeric')) return
  throw invalidField('is_numerical', 'is_numerical must be true exactly when property_type is Numeric.')
}

/** A type that a user sets is marked as such; null returns to inference. */
function assignPropertyFields (sql: Sql, changes: PropertyDefinitionChanges): Statement[] {
  const { property_type: type, is_numerical: isNumerical } = changes
  const shared = assignShared(sql, changes)
  if (type !== undefined) return [...shared, sql`property_type = ${type}, property_type_is_manual = ${type !== null}`]
  if (isNumerical === undefined) return shared
  if (isNumerical) return [...shared, sql`property_type = 'Numeric', property_type_is_manual = true`]
  // A type other than Numeric is consistent already.
  return [
    ...shared,
    sql`property_type_is_manual = property_type_is_manual OR property_type IS NOT DISTINCT FROM 'Numeric'`,
    sql`property_type = CASE WHEN property_type = 'Numeric' THEN 'String' ELSE property_type END`
  ]
}

/**
 * Deletes a definition with all that was written to it; its events stay. The next event with its name creates a new
 * one: the row stays, hidden, because the roll-up must know which events are older than the deletion.
 *
 * @throws {HttpError} 404.
 */
export async function deleteDefinition (
  sql: Sql, what: 'event' | 'property', { projectId, id }: DefinitionKey
): Promise<void> {
  const { table, cleared } = what === 'event' ? EVENTS : PROPERTIES
  const { count } = await sql`
    UPDATE ${sql.unsafe(table)} SET
      deleted_at = clock_timestamp(), id = gen_random_uuid(), tags = '{}', description = '', owner_id = NULL,
      verified = false, hidden = false, query_usage_30_day = 0, query_usage_written_at = NULL, ${sql.unsafe(cleared)}
    WHERE project_id = ${projectId} AND id = ${id} AND deleted_at IS NULL`
  if (count === 0) throw notFound()
}
