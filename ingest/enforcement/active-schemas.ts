/** The schemas that ingest enforces. */
import { type ActiveVersion, createReadActive } from './active-definitions.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { SchemaMode } from '../../schema/schema-modes.ts'
import { type CompiledSchema, compileSchema } from '../../engines/json-schema/compile-schema.ts'

/** A schema that is enforced. Crosses threads without its check. */
export interface ActiveSchema {
  id: number
  event: string
  version: number
  mode: SchemaMode
  /** The JSON text of the schema. */
  text: string
  check: Check
}

type Check = CompiledSchema['check']

/** The active schemas of a project, by event; never changed: another set takes its place. */
export type ProjectSchemas = ReadonlyMap<string, ActiveSchema>

/** What another thread needs to make the same set. */
export type SchemaDefinition = Omit<ActiveSchema, 'check'>

export function definitionsOf (schemas: ProjectSchemas): SchemaDefinition[] {
  return [...schemas.values()].map(({ id, event, version, mode, text }) => ({ id, event, version, mode, text }))
}

/** @throws {DefinitionError} */
export function compileDefinitions (definitions: readonly SchemaDefinition[]): ProjectSchemas {
  return new Map(definitions.map((definition) =>
    [definition.event, { ...definition, check: compileCheck(definition.text) }]))
}

function compileCheck (text: string): Check {
  return compileSchema(JSON.parse(text)).check
}

interface ActiveRow extends ActiveVersion {
  schema_id: number
  mode: SchemaMode
}

/** Returns a function that reads the active schemas of all projects; see {@link createReadActive}. */
export function createReadActiveSchemas (sql: Sql, logger: Logger): () => Promise<ReadonlyMap<number, ProjectSchemas>> {
  return createReadActive<ActiveRow, Check, ProjectSchemas>({
    what: 'an event schema',
    read: (known) => sql<ActiveRow[]>`
      SELECT s.project_id, s.id AS schema_id, s.event AS name, s.mode, v.version, v.id::text AS id,
        CASE WHEN v.id = ANY (${known}::bigint[]) THEN NULL ELSE v.schema::text END AS text
      FROM event_schemas AS s
      JOIN event_schema_versions AS v ON v.schema_id = s.id AND v.version = s.active_version
      ORDER BY s.project_id, s.event`,
    compile: compileCheck,
    toDefinitions: (versions) => new Map(versions.map((row) => {
      const { schema_id: id, name: event, version, mode, text, compiled: check } = row
      return [event, { id, event, version, mode, text, check }]
    })),
    isSame: (schemas, before) => schemas.size === before.size && [...schemas].every(([event, { check, mode }]) => {
      const old = before.get(event)
      return old?.check === check && old.mode === mode
    })
  }, logger)
}
