import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { KnownNames } from './described-names.ts'

/** Most that is read of each table: what a thread remembers is bounded. */
const MAX_EVENTS = 20_000
const MAX_PROPERTIES = 20_000
const MAX_PAIRS = 100_000

/** Reads the names that a project's definitions have; null when Postgres does not tell. */
export type ReadKnownNames = (projectId: number) => Promise<KnownNames | null>

/** Names that are in use come first. A failure costs descriptions of the next hour, no event: it is logged. */
export function createReadKnownNames (sql: Sql, logger: Logger): ReadKnownNames {
  return async function readKnownNames (projectId) {
    try {
      const [events, pairs, others] = await Promise.all([
        sql<{ name: string }[]>`
          SELECT name FROM event_definitions WHERE project_id = ${projectId} AND deleted_at IS NULL
          ORDER BY volume_30_day DESC LIMIT ${MAX_EVENTS}`,
        sql<{ event: string, properties: string[] }[]>`
          SELECT event, array_agg(property) AS properties FROM (
            SELECT event, property FROM event_properties WHERE project_id = ${projectId}
            ORDER BY last_seen_at DESC NULLS LAST LIMIT ${MAX_PAIRS}
          ) AS latest GROUP BY event`,
        sql<{ entry: string }[]>`
          SELECT CASE type WHEN 'person' THEN 'p' ELSE 'g' || group_type || chr(1) END || name AS entry
          FROM property_definitions WHERE project_id = ${projectId} AND type <> 'event' AND deleted_at IS NULL
          ORDER BY counted_events DESC LIMIT ${MAX_PROPERTIES}`
      ])
      const known = new Map<string, ReadonlySet<string>>(events.map(({ name }) => [name, new Set()]))
      for (const { event, properties } of pairs) known.set(event, new Set(properties))
      return { events: known, others: new Set(others.map(({ entry }) => entry)) }
    } catch (err) {
      logger.warn({ err, projectId }, 'could not read the known names; names beyond the limits get no definitions')
      return null
    }
  }
}
