import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { uuidFromNative } from '../../platform/native-block/native-block.ts'
import { identityKey, toHex, type EventIdentity } from './event-identity.ts'

/** Tells which of the events are stored, by `identityKey`. */
export type LookUpEvents = (events: readonly EventIdentity[]) => Promise<Set<string>>

/** Events per query: some 100 KB of text, and few enough granules that each query stays in milliseconds. */
const EVENTS_PER_QUERY = 1000

/**
 * Creates the look-up of events in ClickHouse by the table's primary key.
 *
 * The text of the query is made of numbers and hexadecimal digits only, so there is nothing to escape; as parameters
 * the same values would exceed what a URL may hold.
 *
 * @throws when ClickHouse does not answer; the batch waits then, as it could not be inserted either.
 */
export function createLookUpEvents (clickhouse: ClickHouse): LookUpEvents {
  return async function lookUpEvents (events) {
    const stored = new Set<string>()
    for (let from = 0; from < events.length; from += EVENTS_PER_QUERY) {
      const asked = events.slice(from, from + EVENTS_PER_QUERY)
      const found = new Map<string, number[]>()
      for (const row of await queryEvents(clickhouse, asked)) {
        const key = `${row[0]} ${row[1]} ${row[2]} ${row[3]}`
        found.set(key, [...found.get(key) ?? [], row[4]])
      }
      for (const event of asked) {
        const days = found.get(identityKey(event))
        if (days?.some((day) => Math.abs(day - event.day) <= 1)) stored.add(identityKey(event))
      }
    }
    return stored
  }
}

type StoredEvent = [projectId: number, uuidHex: string, eventHex: string, distinctIdHex: string, day: number]

async function queryEvents (clickhouse: ClickHouse, events: readonly EventIdentity[]): Promise<StoredEvent[]> {
  const list = (values: Iterable<string | number>): string => [...new Set(values)].join(', ')
  const text = (bytes: Uint8Array): string => `unhex('${toHex(bytes)}')`
  const query = `SELECT
    project_id, lower(hex(reinterpretAsFixedString(uuid))), lower(hex(event)), lower(hex(distinct_id)),
    toInt32(toDate32(timestamp)) AS day
FROM events
WHERE project_id IN (${list(events.map(({ projectId }) => projectId))})
  AND toDate(timestamp) IN (${list(events.flatMap(({ day }) => [day - 1, day, day + 1].map((d) => `toDate(${d})`)))})
  AND event IN (${list(events.map(({ event }) => text(event)))})
  AND cityHash64(distinct_id) IN (${list(events.map(({ distinctId }) => `cityHash64(${text(distinctId)})`))})
  AND uuid IN (${list(events.map(({ uuidHex }) => `'${uuidFromNative(Buffer.from(uuidHex, 'hex'))}'`))})`
  const result = await clickhouse.query({
    query, format: 'JSONCompactEachRow', clickhouse_settings: { max_query_size: '16777216' }
  })
  return await result.json<StoredEvent>()
}
