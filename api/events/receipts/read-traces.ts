/** Traces of events that were sent again, dropped, or deleted. */
import { WARNINGS_TABLE } from '../../../schema/wire/ingestion-warnings.ts'
import { hashDistinctId, TRACES_TABLE, type TraceKind } from '../../../schema/wire/event-traces.ts'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Found, Receipt } from './describe-receipt.ts'
import { type DistinctIdQuery, type EventQuery, isoTime } from './stored-events.ts'

/** When ingest received it; of what only a sample of ingestion warnings tells, the same. */
type DroppedEvent = Found<'dropped'>

export type EventTraces = ReturnType<typeof toTraces>

const SHOWN_DUPLICATES = 5

interface Row {
  uuid: string
  kind: TraceKind
  count: number
  last: [at: string, process: string, reason: string, partition: string, sequence: string][]
}

/** Reads the traces of events, in the order of their uuids. */
export async function readTraces (
  { projectId, uuids }: { projectId: number, uuids: readonly string[] }, clickhouse: ClickHouse
): Promise<EventTraces[]> {
  if (uuids.length === 0) return []
  const rows = await queryRows<Row>(clickhouse, `
    SELECT uuid, kind, toUInt32(count()) AS count,
      arraySlice(arrayReverseSort(groupArray(tuple(time, process, reason, partition, toString(sequence)))),
        1, ${SHOWN_DUPLICATES}) AS last
    FROM (
      SELECT uuid, kind, ${isoTime('event_traces.at')} AS time, process, any(reason) AS reason, partition, sequence, row
      FROM ${TRACES_TABLE}
      WHERE project_id = {project: UInt32} AND uuid IN {uuids: Array(UUID)}
      GROUP BY uuid, kind, event_traces.at, process, partition, sequence, row
    ) GROUP BY uuid, kind SETTINGS final = 0`, { uuids, project: projectId })
  const found = new Map(rows.map((row) => [`${row.uuid} ${row.kind}`, row]))
  return uuids.map((uuid) => toTraces(uuid, (kind) => found.get(`${uuid} ${kind}`)))
}

function toTraces (uuid: string, of: (kind: TraceKind) => Row | undefined) {
  const { count = 0, last = [] } = of('duplicate') ?? {}
  const [receivedAt, process, reason = ''] = of('dropped')?.last[0] ?? []
  const duplicates: NonNullable<Receipt['duplicates']> = {
    count,
    last: last.map(([receivedAt, process, , partition, sequence]) =>
      ({ received_at: receivedAt, received_by: process || null, partition, sequence: Number(sequence) }))
  }
  const dropped: DroppedEvent | null = receivedAt === undefined
    ? null
    : { uuid, received_at: receivedAt, received_by: process || null, reason }
  return {
    duplicates,
    dropped,
    // When the deletion of its person was asked for, ISO 8601.
    deletedAt: of('deleted')?.last[0]?.[0] ?? null
  }
}

/** A dropped event among the samples of ingestion warnings, which are kept for longer than traces. */
export async function readDroppedSample (
  { projectId, uuid }: EventQuery, clickhouse: ClickHouse
): Promise<DroppedEvent | null> {
  const [row] = await queryRows<Omit<DroppedEvent, 'uuid'>>(clickhouse, `
    SELECT if(reason IN ('rule_dropped', 'rule_sampled'), concat(reason, ': ', sample.value), reason) AS reason,
      splitByChar('/', source)[1] AS received_by, ${isoTime('sample.received_at')} AS received_at
    FROM ${WARNINGS_TABLE} ARRAY JOIN samples AS sample
    WHERE project_id = {project: UInt32} AND effect = 'dropped' AND lower(sample.uuid) = {uuid: String}
    ORDER BY received_at DESC LIMIT 1 SETTINGS final = 0`, { uuid, project: projectId })
  return row === undefined ? null : { uuid, ...row }
}

export async function listDroppedEvents (
  { projectId, distinctId, limit }: DistinctIdQuery, clickhouse: ClickHouse
): Promise<DroppedEvent[]> {
  return await queryRows<DroppedEvent>(clickhouse, `
    SELECT uuid, any(reason) AS reason, ${isoTime('event_traces.at')} AS received_at, process AS received_by
    FROM ${TRACES_TABLE}
    WHERE project_id = {project: UInt32} AND kind = 'dropped' AND distinct_id_hash = {hash: String}
    GROUP BY uuid, event_traces.at, process ORDER BY event_traces.at DESC LIMIT {limit: UInt32} SETTINGS final = 0`,
  { project: projectId, hash: hashDistinctId(distinctId), limit })
}
