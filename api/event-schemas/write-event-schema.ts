import { HttpError } from '../../platform/errors.ts'
import { type CompiledSchema, compileSchema } from '../../platform/event-schemas/compile-schema.ts'
import { SchemaError } from '../../platform/event-schemas/schema-place.ts'
import { toEventName } from '../../platform/identity.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import type { EventSchema, EventSchemaFields, NewEventSchema } from './event-schema.ts'
import { findEventSchema, type SchemaKey } from './read-event-schemas.ts'

/** Schemas of a project: an ingest process holds those of all projects in memory. */
const MAX_SCHEMAS = 500

interface Stored {
  id: number
  version: number
}

/**
 * Creates a schema with its first version. One of an event whose schema was deleted counts on from there.
 *
 * @param userId  Null from the command line.
 * @throws {HttpError} 400 naming the invalid field in `attr`, levels joined by `__`.
 */
export async function createEventSchema (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number | null }, fields: NewEventSchema
): Promise<EventSchema> {
  const { event, schema, description = '', owner = '', mode = 'observe' } = fields
  if (event.trim() === '') throw invalid('event', 'This field may not be blank.', 'blank')
  if (toEventName(event) !== event) throw invalid('event', 'No event has this name: names are cut to 200 characters.')
  compileDraft(schema)
  const id = await sql.begin(async (tx) => {
    await lockProject(tx, projectId)
    const [counted] = await tx<{ count: number }[]>`
      SELECT count(*)::integer AS count FROM event_schemas WHERE project_id = ${projectId} AND NOT deleted`
    if (counted!.count >= MAX_SCHEMAS) throw invalid('event', `A project has at most ${MAX_SCHEMAS} schemas.`)
    const [stored] = await tx<Stored[]>`
      INSERT INTO event_schemas (project_id, event, description, owner, mode, created_by)
      VALUES (${projectId}, ${event}, ${description}, ${owner}, ${mode}, ${userId})
      ON CONFLICT (project_id, event) DO UPDATE SET description = EXCLUDED.description, owner = EXCLUDED.owner,
        mode = EXCLUDED.mode, created_by = EXCLUDED.created_by, deleted = false, version = event_schemas.version + 1,
        created_at = now(), updated_at = now()
      WHERE event_schemas.deleted
      RETURNING id, version`
    if (stored === undefined) throw invalid('event', 'There is already a schema of this event.', 'unique')
    await insertVersion(tx, stored, { schema, userId })
    await activate(tx, stored, fields.active_version)
    return stored.id
  })
  return await findEventSchema(sql, { projectId, id })
}

/**
 * Changes the given fields; another schema makes a version, which is not active by that.
 *
 * @throws {HttpError} 404; 400 naming the invalid field in `attr`.
 */
export async function updateEventSchema (
  sql: Sql, key: SchemaKey, { fields, userId }: { fields: EventSchemaFields, userId: number | null }
): Promise<EventSchema> {
  const { schema, description, owner, mode } = fields
  if (schema !== undefined) compileDraft(schema)
  await sql.begin(async (tx) => {
    const stored = await lockSchema(tx, key)
    let { version } = stored
    if (schema !== undefined && !(await isNewest(tx, stored, schema))) {
      version++
      await insertVersion(tx, { id: stored.id, version }, { schema, userId })
    }
    await tx`UPDATE event_schemas SET version = ${version}, description = COALESCE(${description ?? null}, description),
      owner = COALESCE(${owner ?? null}, owner), mode = COALESCE(${mode ?? null}, mode), updated_at = now()
      WHERE id = ${stored.id}`
    await activate(tx, { id: stored.id, version }, fields.active_version)
  })
  return await findEventSchema(sql, key)
}

/** @throws {HttpError} 404. */
export async function deleteEventSchema (sql: Sql, key: SchemaKey): Promise<void> {
  await sql.begin(async (tx) => {
    const { id } = await lockSchema(tx, key)
    await tx`UPDATE event_schemas SET deleted = true, active_version = NULL, updated_at = now() WHERE id = ${id}`
  })
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
    throw invalid(['schema', ...error.path].join('__'), error.message, 'invalid_schema')
  }
}

async function lockProject (tx: TransactionSql, projectId: number): Promise<void> {
  const rows = await tx`SELECT id FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
  if (rows.length === 0) throw notFound()
}

async function lockSchema (tx: TransactionSql, key: SchemaKey): Promise<Stored> {
  const which = 'id' in key ? tx`id = ${key.id}` : tx`event = ${key.event}`
  const [stored] = await tx<Stored[]>`
    SELECT id, version FROM event_schemas WHERE project_id = ${key.projectId} AND ${which} AND NOT deleted FOR UPDATE`
  if (stored === undefined) throw notFound()
  return stored
}

async function insertVersion (
  tx: TransactionSql, { id, version }: Stored, { schema, userId }: { schema: unknown, userId: number | null }
): Promise<void> {
  await tx`INSERT INTO event_schema_versions (schema_id, version, schema, created_by)
    VALUES (${id}, ${version}, ${tx.json(schema)}, ${userId})`
}

async function isNewest (tx: TransactionSql, { id, version }: Stored, schema: unknown): Promise<boolean> {
  const [same] = await tx<{ same: boolean }[]>`
    SELECT schema::text = ${tx.json(schema)}::json::text AS same FROM event_schema_versions
    WHERE schema_id = ${id} AND version = ${version}`
  return same?.same === true
}

/** @param active  The version to enforce; null: none; undefined: as it is. */
async function activate (
  tx: TransactionSql, { id, version }: Stored, active: number | null | undefined
): Promise<void> {
  if (active === undefined) return
  if (active !== null && active > version) throw invalid('active_version', `The newest version is ${version}.`)
  // A version of a release before may have what this one no longer takes.
  const [chosen] = await tx<{ schema: unknown }[]>`
    SELECT schema FROM event_schema_versions WHERE schema_id = ${id} AND version = ${active}`
  if (active !== null) compileDraft(chosen?.schema)
  await tx`UPDATE event_schemas SET active_version = ${active}, updated_at = now() WHERE id = ${id}`
}

function invalid (attr: string, detail: string, code = 'invalid'): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr })
}
