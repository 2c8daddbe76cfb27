import { LATE_EVENT } from '../kinds/event-faults.ts'
import { type FaultSystem } from '../system/start-fault-system.ts'

interface Counts {
  event: string
  rows: number
  volume: number
  byProperty: number
}

/** A property that every event of the load has. */
const PROPERTY = 'index'

/**
 * Compares everything that is counted beside `events` with it: the volumes by day, the properties by event, and the
 * definitions in Postgres.
 *
 * @returns what differs, one line each.
 */
export async function auditCounts ({ select, sql }: Pick<FaultSystem, 'select' | 'sql'>): Promise<string[]> {
  const counts = await select<Counts>(
    `SELECT event, toUInt32(sum(rows)) AS rows, toUInt32(sum(volume)) AS volume, toUInt32(sum(by_property)) AS byProperty
     FROM (
       SELECT toString(event) AS event, count() AS rows, 0 AS volume, 0 AS by_property FROM events GROUP BY event
       UNION ALL
       SELECT toString(event), 0, sum(volume), 0 FROM event_volumes_by_day GROUP BY event
       UNION ALL
       SELECT toString(event), 0, 0, sum(count) FROM event_property_counts
       WHERE kind = 'event' AND property = '${PROPERTY}' GROUP BY event
     ) GROUP BY event ORDER BY event`)
  const definitions = await sql<{ name: string, volume_30_day: number }[]>`
    SELECT name, volume_30_day FROM event_definitions`
  const defined = new Map(definitions.map((row) => [row.name, row.volume_30_day]))
  const differences = counts.flatMap(({ event, rows, volume, byProperty }) => [
    ...volume === rows ? [] : [`${event}: ${rows} rows, but a volume of ${volume}`],
    ...byProperty === rows ? [] : [`${event}: ${rows} rows, but property ${PROPERTY} ${byProperty} times`],
    ...event === LATE_EVENT || defined.get(event) === rows ? [] : [`${event}: ${rows} rows, but its definition says ${defined.get(event)}`]
  ])
  const [sum] = await select<{ events: number, volumes: number }>(
    `SELECT toUInt32((SELECT count() FROM events)) AS events,
       toUInt32((SELECT sum(volume) FROM event_volumes_by_day)) AS volumes`)
  if (sum?.events !== sum?.volumes) differences.push(`${sum?.events} events, but volumes sum up to ${sum?.volumes}`)
  return [...differences, ...await auditPersons({ select, sql })]
}

/** The first event of each batch sets a property, so its sender is a person. */
async function auditPersons ({ select, sql }: Pick<FaultSystem, 'select' | 'sql'>): Promise<string[]> {
  const senders = await select<{ id: string }>(
    "SELECT DISTINCT distinct_id AS id FROM events WHERE JSONHas(properties, '$set')")
  const known = await sql<{ distinct_id: string }[]>`SELECT distinct_id FROM person_distinct_ids`
  const persons = new Set(known.map((row) => row.distinct_id))
  const missing = senders.filter(({ id }) => !persons.has(id))
  return missing.length === 0 ? [] : [`${missing.length} distinct ids set person properties, but have no person`]
}
