/** Events as `events` has them, for receipts. */
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { dayOf, limitTime } from '../day-spans.ts'
import type { Found } from './describe-receipt.ts'

/** An event in `events`. */
export type StoredEvent = Found<'stored'>

/** Which event: the uuid in its canonical form, lower case. */
export interface EventQuery {
  projectId: number
  uuid: string
  /** Timestamp of the event, epoch ms, if known; speeds up the search. */
  timestamp?: number | undefined
}

export interface DistinctIdQuery {
  projectId: number
  distinctId: string
  limit: number
}

const DAY_MS = 86_400_000

/** Selects a time of ClickHouse as ISO 8601. */
export const isoTime = (expression: string): string => `concat(replaceOne(toString(${expression}), ' ', 'T'), 'Z')`

const COLUMNS = `uuid, event, distinct_id, ${isoTime('events.timestamp')} AS timestamp,
  ${isoTime('events.received_at')} AS received_at, ${isoTime('events.inserted_at')} AS inserted_at, insert_token AS token`

/** What the token of an insert says; null: it was stored by a version that recorded none, or not by the pipeline. */
type StoredInsert = Pick<StoredEvent, 'insert_token' | 'partition' | 'first_sequence' | 'last_sequence' | 'received_by'>

type Row = Omit<StoredEvent, keyof StoredInsert> & { token: string }

/**
 * Reads an event by its uuid. The days around its time are asked first: the key of the table leaves few granules of
 * them, while the whole table means a look into the filter of uuids of every granule.
 */
export async function readStoredEvent (query: EventQuery, clickhouse: ClickHouse): Promise<StoredEvent | null> {
  const near = query.timestamp ?? timeOfUuid(query.uuid)
  const rows = near === null ? [] : await readRows(query, clickhouse, near)
  const [row] = rows.length > 0 ? rows : await readRows(query, clickhouse)
  return row === undefined ? null : toStored(row)
}

/** @param near  Only events that happened within a day of this time, epoch milliseconds. */
async function readRows ({ projectId, uuid }: EventQuery, clickhouse: ClickHouse, near?: number): Promise<Row[]> {
  const day = (offset: number): string => dayOf(limitTime((near ?? 0) + offset * DAY_MS))
  const days = near === undefined ? '' : 'AND toDate(events.timestamp) BETWEEN {first: Date} AND {last: Date}'
  return await queryRows<Row>(clickhouse, `
    SELECT ${COLUMNS} FROM events PREWHERE uuid = {uuid: UUID} WHERE project_id = {project: UInt32} ${days}
    ORDER BY events.inserted_at LIMIT 1 SETTINGS final = 0`,
  { uuid, project: projectId, ...(near === undefined ? {} : { first: day(-1), last: day(1) }) })
}

/**
 * The newest events of a distinct id by time of receipt, each once.
 *
 * An id with a hundred thousand events is in nearly every granule, so no filter helps: reading has to stop once enough
 * were found. First the table is read backwards in its own order, by day, for as many events as are wanted. The
 * earliest receipt among them bounds the second look, by the index of `received_at`: what was received later is there,
 * whatever its day.
 */
export async function listStoredEvents (query: DistinctIdQuery, clickhouse: ClickHouse): Promise<StoredEvent[]> {
  const { limit } = query
  const since = await findEarliestReceipt(limit + SPARE_EVENTS, query, clickhouse)
  const rows = await readNewest(query, clickhouse, since)
  // Copies that are not merged yet took the places of others.
  if (since !== null && rows.length < limit) return (await readNewest(query, clickhouse, null)).map(toStored)
  return rows.map(toStored)
}

/** Events more than are wanted: copies of one event that are not merged yet count once. */
const SPARE_EVENTS = 20

/** Earliest receipt among the given number of events of the latest days, as text; null: there are fewer. */
async function findEarliestReceipt (
  events: number, { projectId, distinctId }: DistinctIdQuery, clickhouse: ClickHouse
): Promise<string | null> {
  const [row] = await queryRows<{ since: string, found: string }>(clickhouse, `
    SELECT toString(min(at)) AS since, count() AS found FROM (
      SELECT events.received_at AS at FROM events PREWHERE distinct_id = {distinctId: String}
      WHERE project_id = {project: UInt32} ORDER BY project_id DESC, toDate(events.timestamp) DESC LIMIT {events: UInt32}
    ) SETTINGS final = 0, optimize_read_in_order = 1`, { distinctId, project: projectId, events })
  return row === undefined || Number(row.found) < events ? null : row.since
}

async function readNewest (
  { projectId, distinctId, limit }: DistinctIdQuery, clickhouse: ClickHouse, since: string | null
): Promise<Row[]> {
  return await queryRows<Row>(clickhouse, `
    SELECT ${COLUMNS} FROM events PREWHERE distinct_id = {distinctId: String}
    WHERE project_id = {project: UInt32} ${since === null ? '' : 'AND events.received_at >= toDateTime64({since: String}, 3)'}
    ORDER BY events.received_at DESC, uuid LIMIT 1 BY uuid LIMIT {limit: UInt32} SETTINGS final = 0`,
  { distinctId, project: projectId, limit, ...since === null ? {} : { since } })
}

/** Time of a uuid of version 7 in epoch milliseconds; null for other versions, which tell none. */
export function timeOfUuid (uuid: string): number | null {
  if (uuid[14] !== '7') return null
  const ms = Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
  // A time that ClickHouse has no day for tells nothing.
  return ms < Date.UTC(2100, 0, 1) ? ms : null
}

function toStored ({ token, ...row }: Row): StoredEvent {
  return { ...row, ...parseInsertToken(token) }
}

/** `<stream>:<class>.<partition>:<first>-<last>[:<rows>][@<process>,...]`: see `batchRangeToken` of the pipeline. */
const TOKEN = /^[^:]*:((?:live|historical)\.\d+):(\d+)-(\d+)(?::\d+-\d+)?(?:@(.*))?$/

function parseInsertToken (token: string): StoredInsert {
  const [, partition, first, last, processes] = TOKEN.exec(token) ?? []
  if (partition === undefined) {
    return { insert_token: null, partition: null, first_sequence: null, last_sequence: null, received_by: [] }
  }
  return {
    insert_token: token, partition, first_sequence: Number(first), last_sequence: Number(last),
    received_by: processes === undefined ? [] : processes.split(',')
  }
}

const UUID = /^(?:urn:uuid:)?(\{)?([0-9a-f]{8})(-?)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{12})(\})?$/i

/** A uuid in one of the forms that ingest accepts, as it is stored; null for other texts. */
export function readSentUuid (text: string): string | null {
  const [, open, a, , b, c, d, e, close] = UUID.exec(text) ?? []
  if (a === undefined || (open === undefined) !== (close === undefined)) return null
  return [a, b, c, d, e].join('-').toLowerCase()
}
