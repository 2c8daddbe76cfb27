/** Looks events up in ClickHouse by all that makes two rows the same event. */
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { decodeFrame } from '../../../schema/wire/frame-codec.ts'
import { cellsOf, uuidFromNative } from '../../../schema/wire/native-block.ts'
import type { PartitionMessage } from '../events-reader.ts'

/**
 * Events per query. Random old events lie in as many granules as there are, so 10,000 cost little more than a thousand:
 * 90 and 75 ms of CPU among ten million events.
 */
const EVENTS_PER_QUERY = 20_000

/** Room for a full batch of the longest names and ids in hexadecimal digits. */
const MAX_QUERY_BYTES = 134_217_728

/** The first columns of every layout, in this order. */
const IDENTITY_COLUMNS = ['project_id', 'uuid', 'event', 'distinct_id', 'timestamp']

/** What makes two rows the same event: an SDK that sends an event again sends all of this again. */
export interface EventIdentity {
  projectId: number
  /** The 16 bytes as in the Native column, in hex. */
  uuidHex: string
  event: Uint8Array
  distinctId: Uint8Array
  /** Day of the timestamp, days since 1970. The corrected clock may move a repeated event: one day off is equal. */
  day: number
}

/**
 * Tells of each event, in their order, whether it is stored.
 *
 * @param options.insertToken  Whether this insert stored it.
 */
export type LookUpEvents = (
  events: readonly EventIdentity[], options?: { insertToken?: string }
) => Promise<boolean[]>

/**
 * Creates the look-up of events in ClickHouse by the table's primary key.
 *
 * The text of the query is made of numbers and hexadecimal digits only, so there is nothing to escape; as parameters
 * the same values would exceed what a URL may hold.
 *
 * `PREWHERE uuid` makes ClickHouse read the uuids of the granules that the primary key leaves, and the other columns
 * only of rows whose uuid is asked for. Left to itself it reads names and ids of all rows first: five times the CPU.
 *
 * On a cluster the replica that answers may lack what another one confirmed: missing events are looked up once more
 * when the replicas have caught up.
 *
 * @param waitForReplicas  Absent on one node.
 * @throws when ClickHouse does not answer; the batch waits then, as it could not be inserted either.
 */
export function createLookUpEvents (clickhouse: ClickHouse, waitForReplicas?: () => Promise<void>): LookUpEvents {
  return async function lookUpEvents (events, { insertToken } = {}) {
    const stored = await lookUp(events, insertToken)
    if (waitForReplicas === undefined || stored.every(Boolean)) return stored
    await waitForReplicas()
    const found = (await lookUp(events.filter((_, index) => !stored[index]), insertToken)).values()
    return stored.map((isStored) => isStored || found.next().value === true)
  }

  async function lookUp (events: readonly EventIdentity[], insertToken?: string): Promise<boolean[]> {
    const stored: boolean[] = []
    for (let from = 0; from < events.length; from += EVENTS_PER_QUERY) {
      const asked = events.slice(from, from + EVENTS_PER_QUERY)
      const found = new Map<string, number[]>()
      for (const row of await queryEvents(clickhouse, asked, insertToken)) {
        const key = `${row[0]} ${row[1]} ${row[2]} ${row[3]}`
        found.set(key, [...found.get(key) ?? [], row[4]])
      }
      for (const event of asked) {
        stored.push(found.get(identityKey(event))?.some((day) => Math.abs(day - event.day) <= 1) ?? false)
      }
    }
    return stored
  }
}

type StoredEvent = [projectId: number, uuidHex: string, eventHex: string, distinctIdHex: string, day: number]

async function queryEvents (
  clickhouse: ClickHouse, events: readonly EventIdentity[], insertToken?: string
): Promise<StoredEvent[]> {
  const list = (values: Iterable<number>): string => [...new Set(values)].join(', ')
  // One text for all values: ten thousand literals would take longer to parse than to find.
  const split = (values: Iterable<string>): string => `arrayJoin(splitByChar(',', '${[...new Set(values)].join(',')}'))`
  const query = `SELECT
    project_id, lower(hex(reinterpretAsFixedString(uuid))), lower(hex(event)), lower(hex(distinct_id)),
    toInt32(toDate32(timestamp)) AS day
FROM events
PREWHERE uuid IN (SELECT toUUID(${split(events.map(({ uuidHex }) => uuidFromNative(Buffer.from(uuidHex, 'hex'))))}))
WHERE project_id IN (${list(events.map(({ projectId }) => projectId))})
  AND toDate(timestamp) IN (${[...new Set(events.flatMap(({ day }) => [day - 1, day, day + 1]))].map((day) => `toDate(${day})`).join(', ')})
  AND event IN (SELECT unhex(${split(events.map(({ event }) => toHex(event)))}))
  AND cityHash64(distinct_id) IN (SELECT cityHash64(unhex(${split(events.map(({ distinctId }) => toHex(distinctId)))})))
  ${insertToken === undefined ? '' : `AND insert_token = unhex('${toHex(Buffer.from(insertToken))}')`}`
  const result = await clickhouse.query({
    query,
    format: 'JSONCompactEachRow',
    // The filter of uuids helps one look-up: thousands of uuids would be tried on each granule, and match it.
    clickhouse_settings: { max_query_size: String(MAX_QUERY_BYTES), use_skip_indexes: 0 }
  })
  return await result.json<StoredEvent>()
}

/**
 * Reads the identities of rows of a message, of all of them by default.
 *
 * @returns null when the frame cannot be read; ClickHouse will refuse it too, and it is dead-lettered then.
 */
export async function readIdentities (
  message: PartitionMessage, rows: readonly number[] = Array.from({ length: message.rows }, (_, row) => row)
): Promise<EventIdentity[] | null> {
  try {
    const block = await decodeFrame(message.frame, { columns: IDENTITY_COLUMNS.length })
    if (block.rows !== message.rows) return null
    const [project, uuid, event, distinctId, timestamp] = IDENTITY_COLUMNS.map((name) => cellsOf(block, name))
    return rows.map((row) => ({
      projectId: Buffer.from(project![row]!).readUInt32LE(),
      uuidHex: toHex(uuid![row]!),
      event: event![row]!,
      distinctId: distinctId![row]!,
      day: Math.floor(Number(Buffer.from(timestamp![row]!).readBigInt64LE()) / 86_400_000)
    }))
  } catch {
    return null
  }
}

/** Key under which equal events meet, whatever their day. */
export function identityKey ({ projectId, uuidHex, event, distinctId }: EventIdentity): string {
  return `${projectId} ${uuidHex} ${toHex(event)} ${toHex(distinctId)}`
}

/** Time of a uuid of version 7 in epoch milliseconds; `untimedAt` for any other version, which tells no time. */
export function uuidTime ({ uuidHex }: EventIdentity, untimedAt: number): number {
  // Native keeps each half of the uuid with its bytes reversed: time is in bytes 7..2, the version in byte 1.
  if (uuidHex[2] !== '7') return untimedAt
  return Number.parseInt(uuidHex.slice(14, 16) + uuidHex.slice(12, 14) + uuidHex.slice(10, 12) +
    uuidHex.slice(8, 10) + uuidHex.slice(6, 8) + uuidHex.slice(4, 6), 16)
}

function toHex (bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
