import { type CompiledSchema, compileSchema } from '../../../engines/json-schema/compile-schema.ts'
import { SchemaError } from '../../../engines/json-schema/schema-place.ts'
import { toEventName } from '../../../schema/wire/identity.ts'
import type { Sql, TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import {
  activateVersion, insertVersion, invalidField, lockDefinition, lockProject, refuseOutdated, refuseRenamed,
  type StoredVersion, type VersionKey
} from '../change-definitions.ts'
import { type DefinitionKey, findDefinition } from '../versioned-definitions.ts'
import { EVENT_SCHEMAS, type EventSchema, type EventSchemaChange, type NewEventSchema } from './event-schema.ts'

/** Schemas of a project: an ingest process holds those of all projects in memory. */
const MAX_SCHEMAS = 500

/**
 * Creates a schema with its first version, whose number goes on from that of a deleted schema of the same event.
 *
 * @param userId  Null from the command line.
 * @throws {HttpError} 400 naming the invalid field in `attr`, levels joined by `__`.
 */
export async function createEventSchema (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number | null }, fields: NewEventSchema
): Promise<EventSchema> {
  const { event, schema, description = '', owner = '', mode = 'observe' } = fields
  if (event.trim() === '') throw invalidField('event', 'This field may not be blank.', 'blank')
  if (toEventName(event) !== event) throw invalidField('event', 'No event has this name: names are cut to 200 characters.')
  compileDraft(schema)
  const id = await sql.begin(async (tx) => {
    await lockProject(tx, projectId)
    const [counted] = await tx<{ count: number }[]>`
      SELECT count(*)::integer AS count FROM event_schemas WHERE project_id = ${projectId} AND NOT deleted`
    if (counted!.count >= MAX_SCHEMAS) throw invalidField('event', `A project has at most ${MAX_SCHEMAS} schemas.`)
    const [stored] = await tx<StoredVersion[]>`
      INSERT INTO event_schemas (project_id, event, description, owner, mode, created_by)
      VALUES (${projectId}, ${event}, ${description}, ${owner}, ${mode}, ${userId})
      ON CONFLICT (project_id, event) DO UPDATE SET description = EXCLUDED.description, owner = EXCLUDED.owner,
        mode = EXCLUDED.mode, created_by = EXCLUDED.created_by, deleted = false, version = event_schemas.version + 1,
        first_version = event_schemas.version + 1, created_at = now(), updated_at = now()
      WHERE event_schemas.deleted
      RETURNING id, version, first_version`
    if (stored === undefined) throw invalidField('event', 'There is already a schema of this event.', 'unique')
    await insertVersion(tx, EVENT_SCHEMAS, { ...stored, content: schema, userId })
    await activateVersion(tx, EVENT_SCHEMAS, stored, { active: fields.active_version, compile: compileDraft })
    return stored.id
  })
  return await findDefinition(sql, EVENT_SCHEMAS, { projectId, id })
}

/**
 * Changes the given fields; another schema makes a version, which is not active by that.
 *
 * @throws {HttpError} 404; 400 naming the invalid field in `attr`; 409 when there is a newer version than the change is
 *   based on.
 */
export async function updateEventSchema (
  sql: Sql, key: DefinitionKey, { fields, userId }: { fields: EventSchemaChange, userId: number | null }
): Promise<EventSchema> {
  const { schema, description, owner, mode } = fields
  if (schema !== undefined) compileDraft(schema)
  await sql.begin(async (tx) => {
    const stored = await lockDefinition(tx, EVENT_SCHEMAS, key)
    refuseRenamed(EVENT_SCHEMAS, stored, fields.event)
    await refuseOutdated(tx, EVENT_SCHEMAS, stored, fields)
    let { version } = stored
    if (schema !== undefined && !(await isNewest(tx, stored, schema))) {
      version++
      await insertVersion(tx, EVENT_SCHEMAS, { id: stored.id, version, content: schema, userId })
    }
    await tx`UPDATE event_schemas SET version = ${version}, description = COALESCE(${description ?? null}, description),
      owner = COALESCE(${owner ?? null}, owner), mode = COALESCE(${mode ?? null}, mode), updated_at = now()
      WHERE id = ${stored.id}`
    const chosen = { active: fields.active_version, compile: compileDraft }
    await activateVersion(tx, EVENT_SCHEMAS, { ...stored, version }, chosen)
  })
  return await findDefinition(sql, EVENT_SCHEMAS, key)
}

/**
 * Compiles a schema of a request.
 *
 * @throws {HttpError} 400 naming the place in `attr`, such as `schema__properties__plan__pattern`.
 */
export function compileDraft (schema: unknown): CompiledSchema {
  try {
    return compileSchema(schema)
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    throw invalidField(['schema', ...error.path].join('__'), error.message, 'invalid_schema')
  }
}

async function isNewest (tx: TransactionSql, { id, version }: VersionKey, schema: unknown): Promise<boolean> {
  const [same] = await tx<{ same: boolean }[]>`
    SELECT schema::text = ${tx.json(schema)}::json::text AS same FROM event_schema_versions
    WHERE schema_id = ${id} AND version = ${version}`
  return same?.same === true
}
