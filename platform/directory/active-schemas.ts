/** The schemas that ingest enforces. */
import { type ActiveVersion, createReadActive } from './active-definitions.ts'
import type { Logger } from '../logger.ts'
import type { Sql } from '../postgres/connect-postgres.ts'
import { type CompiledSchema, compileSchema } from '../../engines/json-schema/compile-schema.ts'

/**
 * What happens to an event whose properties do not meet the schema:
 *
 * - `observe`: counted, stored, and marked by a negative `schema_version`.
 * - `quarantine`: dead-lettered, to be looked at and replayed.
 * - `reject`: dropped and counted.
 */
export const SCHEMA_MODES = ['observe', 'quarantine', 'reject'] as const

export type SchemaMode = (typeof SCHEMA_MODES)[number]

/** What is made of the text of a schema. */
type Checks = Pick<CompiledSchema, 'check' | 'listedCheck'>

/** A schema that is enforced. Crosses threads without its checks. */
export interface ActiveSchema extends Checks {
  id: number
  event: string
  version: number
  mode: SchemaMode
  /** The JSON text of the schema. */
  text: string
}

/** The active schemas of a project, by event; never changed: another set takes its place. */
export type ProjectSchemas = ReadonlyMap<string, ActiveSchema>

/** What another thread needs to make the same set. */
export type SchemaDefinition = Omit<ActiveSchema, keyof Checks>

export function definitionsOf (schemas: ProjectSchemas): SchemaDefinition[] {
  return [...schemas.values()].map(({ id, event, version, mode, text }) => ({ id, event, version, mode, text }))
}

/** @throws {SchemaError} */
export function compileDefinitions (definitions: readonly SchemaDefinition[]): ProjectSchemas {
  return new Map(definitions.map((definition) =>
    [definition.event, activateSchema(definition, compileChecks(definition.text))]))
}

function compileChecks (text: string): Checks {
  const { check, listedCheck } = compileSchema(JSON.parse(text))
  return { check, listedCheck }
}

/** The schema that a definition was compiled to. What nearly every event needs comes first: it is fetched at once. */
export function activateSchema (
  { id, event, version, mode, text }: SchemaDefinition, { check, listedCheck }: Checks
): ActiveSchema {
  return { listedCheck, version, mode, check, id, event, text }
}

interface ActiveRow extends ActiveVersion {
  schema_id: number
  mode: SchemaMode
}

/** Returns a function that reads the active schemas of all projects; see {@link createReadActive}. */
export function createReadActiveSchemas (sql: Sql, logger: Logger): () => Promise<ReadonlyMap<number, ProjectSchemas>> {
  return createReadActive<ActiveRow, Checks, ProjectSchemas>({
    what: 'an event schema',
    read: (known) => sql<ActiveRow[]>`
      SELECT s.project_id, s.id AS schema_id, s.event AS name, s.mode, v.version, v.id::text AS id,
        CASE WHEN v.id = ANY (${known}::bigint[]) THEN NULL ELSE v.schema::text END AS text
      FROM event_schemas AS s
      JOIN event_schema_versions AS v ON v.schema_id = s.id AND v.version = s.active_version
      ORDER BY s.project_id, s.event`,
    compile: compileChecks,
    toDefinitions: (versions) => new Map(versions.map(({ schema_id: id, name: event, version, mode, text, compiled }) =>
      [event, activateSchema({ id, event, version, mode, text }, compiled)])),
    isSame: (schemas, before) => schemas.size === before.size && [...schemas].every(([event, { check, mode }]) => {
      const old = before.get(event)
      return old?.check === check && old.mode === mode
    })
  }, logger)
}
