/** The schemas that ingest enforces. */
import type { Logger } from '../logger.ts'
import type { Sql } from '../postgres/connect-postgres.ts'
import { type CompiledSchema, compileSchema } from './compile-schema.ts'

/**
 * What happens to an event whose properties do not meet the schema:
 *
 * - `observe`: counted, stored, and marked by a negative `schema_version`.
 * - `quarantine`: dead-lettered, to be looked at and replayed.
 * - `reject`: dropped and counted.
 */
export const SCHEMA_MODES = ['observe', 'quarantine', 'reject'] as const

export type SchemaMode = (typeof SCHEMA_MODES)[number]

/** A schema that is enforced. Crosses threads without `check`. */
export interface ActiveSchema {
  event: string
  version: number
  mode: SchemaMode
  /** The JSON text of the schema. */
  text: string
  check: CompiledSchema['check']
}

/** The active schemas of a project, by event; never changed: another set takes its place. */
export type ProjectSchemas = ReadonlyMap<string, ActiveSchema>

/** What another thread needs to make the same set. */
export type SchemaDefinition = Omit<ActiveSchema, 'check'>

export function definitionsOf (schemas: ProjectSchemas): SchemaDefinition[] {
  return [...schemas.values()].map(({ event, version, mode, text }) => ({ event, version, mode, text }))
}

/** @throws {SchemaError} */
export function compileDefinitions (definitions: readonly SchemaDefinition[]): ProjectSchemas {
  return new Map(definitions.map((definition) => [
    definition.event, { ...definition, check: compileSchema(JSON.parse(definition.text)).check }
  ]))
}

/** Reads the active schemas of all projects; projects without any are not in the map. */
export type ReadActiveSchemas = () => Promise<ReadonlyMap<number, ProjectSchemas>>

interface ActiveRow {
  project_id: number
  event: string
  mode: SchemaMode
  version: number
  /** Of the version, which never changes. */
  id: string
  /** Null when it was read before. */
  text: string | null
}

/** A schema of a version that is in use. */
interface Known {
  text: string
  check: CompiledSchema['check']
}

/** Compiling goes on after other work when it took this long, in milliseconds. */
const TURN_MS = 5

/**
 * Reads what is active, and compiles what is new. One statement reads it, so that no set is half of one and half of
 * another. A project one of whose schemas does not compile (a newer process has stored a keyword that this one does not
 * know) keeps the set that it had.
 */
export function createReadActiveSchemas (sql: Sql, logger: Logger): ReadActiveSchemas {
  let known = new Map<string, Known>()
  let sets: ReadonlyMap<number, ProjectSchemas> = new Map()

  return async function readActiveSchemas () {
    const rows = await sql<ActiveRow[]>`
      SELECT s.project_id, s.event, s.mode, v.version, v.id::text AS id,
        CASE WHEN v.id = ANY (${[...known.keys()]}::bigint[]) THEN NULL ELSE v.schema::text END AS text
      FROM event_schemas AS s
      JOIN event_schema_versions AS v ON v.schema_id = s.id AND v.version = s.active_version
      ORDER BY s.project_id, s.event`
    const next = new Map<string, Known>()
    const read = new Map<number, Map<string, ActiveSchema>>()
    const broken = new Set<number>()
    let turn = performance.now()
    for (const { project_id: projectId, event, mode, version, id, text } of rows) {
      try {
        const { check, text: stored } = known.get(id) ?? { text: text!, check: compileSchema(JSON.parse(text!)).check }
        next.set(id, { check, text: stored })
        const set = read.get(projectId) ?? new Map<string, ActiveSchema>()
        read.set(projectId, set.set(event, { event, version, mode, text: stored, check }))
      } catch (err) {
        broken.add(projectId)
        logger.error({ err, projectId, event, version }, 'an event schema does not compile; the project keeps the schemas it had')
      }
      if (performance.now() - turn > TURN_MS) {
        await new Promise((resolve) => setImmediate(resolve))
        turn = performance.now()
      }
    }
    for (const projectId of broken) {
      const before = sets.get(projectId)
      if (before === undefined) read.delete(projectId)
      else read.set(projectId, new Map(before))
    }
    known = next
    sets = keepUnchanged(read, sets)
    return sets
  }
}

/** A set that did not change stays the same object, by which threads know that they have it. */
function keepUnchanged (
  read: ReadonlyMap<number, ProjectSchemas>, before: ReadonlyMap<number, ProjectSchemas>
): ReadonlyMap<number, ProjectSchemas> {
  return new Map([...read].map(([projectId, set]) => {
    const old = before.get(projectId)
    const isSame = old?.size === set.size && [...set].every(([event, { check, mode, version }]) => {
      const one = old.get(event)
      return one?.check === check && one.mode === mode && one.version === version
    })
    return [projectId, isSame ? old : set]
  }))
}
