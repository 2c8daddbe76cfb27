/** Remembers by uuid which events came again, for receipts. */
import { classifyClickHouseError } from '../../../platform/clickhouse/clickhouse-errors.ts'
import { type ClickHouse, insertRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { decodeFrame } from '../../../schema/wire/frame-codec.ts'
import { describeRows } from '../../../schema/wire/native-block.ts'
import type { Logger } from '../../../platform/logger.ts'
import { type EventTrace, toTraceRow, TRACES_TABLE } from '../../../schema/wire/event-traces.ts'
import { minuteOf } from '../../../schema/wire/ingestion-warnings.ts'
import { HEADER, processOfRequest } from '../../../schema/wire/streams.ts'
import { partitionKey, type Partition } from '../../stream/find-partitions.ts'
import type { BatchRange } from '../../stream/partition-records.ts'
import type { PartitionMessage } from '../events-reader.ts'
import { hasRow } from '../row-ranges.ts'

/**
 * Writes a trace of each deduplicated row of a stored batch range.
 *
 * To be called before the batch range is acknowledged: after a crash it comes again, with the same rows, and a trace
 * that is inserted twice is one.
 *
 * @throws while ClickHouse is unavailable: the session starts over, and the batch range is repeated.
 */
export type RecordDuplicates = (
  partition: Partition, messages: readonly PartitionMessage[], range: BatchRange
) => Promise<void>

/**
 * Traces of a partition and minute. A storm of events that are sent again must not cost more than storing them: beyond
 * this nothing is decoded or written, and a receipt says less about how often.
 */
const TRACES_PER_MINUTE = 1000

/** `project_id`, `uuid` and `received_at` are among the first six columns of every layout. */
const READ_COLUMNS = 6

export interface RecordDuplicatesDeps {
  /** For the tables of all shards. */
  clickhouse: Pick<ClickHouse, 'insert'>
  logger: Logger
  /** Epoch milliseconds. */
  now?: () => number
}

export function createRecordDuplicates (
  { clickhouse, logger, now = Date.now }: RecordDuplicatesDeps
): RecordDuplicates {
  const written = new Map<string, { minute: number, traces: number }>()
  return async function recordDuplicates (partition, messages, range) {
    if (range.deduplicated.length === 0) return
    const key = partitionKey(partition)
    const minute = minuteOf(now())
    const last = written.get(key)
    const traces = last?.minute === minute ? last.traces : 0
    const values = await readTraces(key, messages, { range, limit: TRACES_PER_MINUTE - traces })
    if (values.length === 0) return
    try {
      await insertRows(clickhouse, TRACES_TABLE, values.map(toTraceRow))
    } catch (error) {
      // A table that is missing or refuses the rows must not stop events: they are stored, and counted elsewhere.
      if (classifyClickHouseError(error).action === 'retry') throw error
      logger.error({ err: error, partition: key }, 'duplicate events could not be recorded; receipts will not show them')
    }
    written.set(key, { minute, traces: traces + values.length })
  }
}

async function readTraces (
  partition: string, messages: readonly PartitionMessage[], { range, limit }: { range: BatchRange, limit: number }
): Promise<EventTrace[]> {
  const traces: EventTrace[] = []
  const deduplicated = new Map(range.deduplicated)
  const [from, to] = range.rows ?? [0, Infinity]
  for (const message of messages) {
    const ranges = deduplicated.get(message.sequence)
    if (ranges === undefined || traces.length >= limit) continue
    const rows = describeRows(await decodeFrame(message.frame, { columns: READ_COLUMNS }))
    rows.forEach((event, row) => {
      if (traces.length >= limit || row < from || row >= to || !hasRow(ranges, row)) return
      const process = processOfRequest(message.headers[HEADER.request] ?? '') ?? ''
      traces.push({
        projectId: Number(event.project_id), uuid: String(event.uuid), at: Date.parse(String(event.received_at)),
        kind: 'duplicate', process, reason: '', partition, sequence: message.sequence, row, distinctIdHash: ''
      })
    })
  }
  return traces
}
