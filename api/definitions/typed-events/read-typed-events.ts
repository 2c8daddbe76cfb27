import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import type { PropertyType } from '../property-definition.ts'

/** An event with what is known of its properties. */
export interface TypedEvent {
  name: string
  /** Of its schema; empty when it has none. */
  description: string
  /** The active schema; null when there is none. */
  schema: unknown
  /** Version of the schema; null when there is none. */
  version: number | null
  /** Properties that were seen on the event, without internal ones (`$lib`); empty when there is a schema. */
  seen: readonly { name: string, type: PropertyType | null }[]
}

export interface TypedEvents {
  /** By name, compared by bytes. */
  events: TypedEvent[]
  /** False when the project has more events, or an event more properties, than are read. */
  isComplete: boolean
}

/** Events that are read; the others of a project may be sent with any properties. */
const MAX_EVENTS = 2000

/** Properties of an event that has no schema. */
const MAX_PROPERTIES = 100

/** Internal events that people send themselves; the others are made by SDKs. */
const SENT_INTERNAL = ['$pageview', '$pageleave', '$screen']

/**
 * Reads the events of a project: those with an active schema (at most 500), and the others by name. Properties of the
 * latter come from the definitions, whose types are of the whole project.
 */
export async function readTypedEvents (sql: Sql, projectId: number): Promise<TypedEvents> {
  const rows = await sql<{ name: string, description: string | null, schema: unknown, version: number | null }[]>`
    WITH schemas AS (
      SELECT s.event, s.description, v.schema, v.version
      FROM event_schemas AS s JOIN event_schema_versions AS v ON v.schema_id = s.id AND v.version = s.active_version
      WHERE s.project_id = ${projectId} AND NOT s.deleted
    ), names AS (
      SELECT event AS name FROM schemas
      UNION
      SELECT d.name FROM event_definitions AS d
      WHERE d.project_id = ${projectId} AND d.deleted_at IS NULL AND (d.name NOT LIKE '$%' OR d.name = ANY(${SENT_INTERNAL}::text[]))
    )
    SELECT n.name, s.description, s.schema, s.version
    FROM names AS n LEFT JOIN schemas AS s ON s.event = n.name
    ORDER BY s.event IS NULL, n.name COLLATE "C"
    LIMIT ${MAX_EVENTS + 1}`
  const kept = rows.slice(0, MAX_EVENTS)
  const untyped = kept.filter(({ version }) => version === null).map(({ name }) => name)
  const seen = await readSeen(sql, projectId, untyped)
  const events = kept.map(({ name, description, schema, version }): TypedEvent => ({
    name, description: description ?? '', schema, version, seen: (seen.get(name) ?? []).slice(0, MAX_PROPERTIES)
  }))
  return {
    events: events.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name))),
    isComplete: rows.length <= MAX_EVENTS && [...seen.values()].every(({ length }) => length <= MAX_PROPERTIES)
  }
}

async function readSeen (
  sql: Sql, projectId: number, events: readonly string[]
): Promise<Map<string, TypedEvent['seen'][number][]>> {
  if (events.length === 0) return new Map()
  const rows = await sql<{ event: string, name: string, type: PropertyType | null }[]>`
    SELECT p.event, p.name, p.type
    FROM (
      SELECT e.event, e.property AS name, d.property_type AS type,
        row_number() OVER (PARTITION BY e.event ORDER BY e.property COLLATE "C") AS number
      FROM event_properties AS e
        JOIN property_definitions AS d ON d.project_id = e.project_id AND d.type = 'event' AND d.group_type = '' AND d.name = e.property
      WHERE e.project_id = ${projectId} AND e.event = ANY(${events}::text[]) AND e.property NOT LIKE '$%'
        AND d.deleted_at IS NULL AND e.property <> 'distinct_id'
    ) AS p
    WHERE p.number <= ${MAX_PROPERTIES + 1}
    ORDER BY p.event COLLATE "C", p.number`
  return Map.groupBy(rows, ({ event }) => event)
}
