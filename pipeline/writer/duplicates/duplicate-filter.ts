/** Finds events that are stored already, so that an insert leaves them out. */
import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type PipelineMetrics } from '../../metrics.ts'
import { partitionKey, type Partition } from '../../partitions/event-partitions.ts'
import { type BatchRange } from '../../partitions/partition-records.ts'
import { type PartitionMessage } from '../partition-reader.ts'
import { confirmDuplicates, type Suspicion } from './confirm-duplicates.ts'
import { type KnownUuids } from './known-uuids.ts'
import { loadKnownUuids } from './load-known-uuids.ts'
import { createLookUpEvents, type LookUpEvents } from './look-up-events.ts'

/** Knows which events of a partition are stored already. */
export interface DuplicateFilter {
  /**
   * Decides which rows of the messages must be left out of their insert: duplicates of stored events, and second ones
   * within the messages. Every row that stays counts as stored from now on.
   *
   * @param options.lookUpAll  Trust nothing that is remembered; ask ClickHouse about every row.
   */
  decide: (messages: readonly PartitionMessage[], options: { lookUpAll: boolean }) => Promise<BatchRange['deduplicated']>
  /** Takes the events of messages as stored, whose decision was made before. */
  remember: (messages: readonly PartitionMessage[]) => void
}

/**
 * Opens the filters of the partitions of one process, and keeps their memory from one session of a partition to the
 * next.
 */
export interface DuplicateFilters {
  open: (partition: Partition, options: { wasMine: boolean }) => Promise<DuplicateFilter>
  /** Frees the memory of a partition that went to another process. */
  close: (partition: Partition) => void
}

export interface DuplicateFilterDeps {
  known: KnownUuids
  lookUpEvents: LookUpEvents
  /** Told how many rows are looked up in ClickHouse. */
  onLookUp: (rows: number) => void
}

export function createDuplicateFilters (deps: { clickhouse: ClickHouse, metrics: PipelineMetrics }): DuplicateFilters {
  const memories = new Map<string, KnownUuids>()
  const lookUpEvents = createLookUpEvents(deps.clickhouse)
  return {
    async open (partition, { wasMine }) {
      const key = partitionKey(partition)
      const known = (wasMine ? memories.get(key) : undefined) ?? await loadKnownUuids(deps.clickhouse)
      memories.set(key, known)
      return createDuplicateFilter({
        known, lookUpEvents, onLookUp: (rows) => deps.metrics.confirmedRows.inc({ partition: key }, rows)
      })
    },
    close: (partition) => { memories.delete(partitionKey(partition)) }
  }
}

/**
 * Creates the filter of a partition. The common case, nothing suspicious, costs one look into memory a row; what is
 * suspicious is decided by what ClickHouse holds, so a wrong suspicion costs time and never an event.
 */
export function createDuplicateFilter (deps: DuplicateFilterDeps): DuplicateFilter {
  const { known } = deps
  return {
    async decide (messages, { lookUpAll }) {
      const suspicions: Suspicion[] = []
      for (const message of messages) {
        // Chosen before, in a larger batch that was refused: the decision stands.
        if (message.deduplicated !== undefined || message.rows === 0) continue
        const coveredSince = known.coveredSince
        const knownRows = known.addPayload(message.payload, message.rows, message.storedAt)
        const madeBefore = lookUpAll || message.receivedAt < coveredSince
          ? Infinity
          : message.oldestUuidAt < coveredSince ? coveredSince : -Infinity
        if (knownRows.length > 0 || madeBefore !== -Infinity) suspicions.push({ message, knownRows, madeBefore })
      }
      const duplicates = suspicions.length === 0 ? null : await confirmDuplicates(messages, { ...deps, suspicions })
      for (const message of messages) message.deduplicated ??= toRanges(duplicates?.get(message) ?? [])
      return messages.filter(({ deduplicated }) => deduplicated!.length > 0).map(toDeduplicated)
    },

    remember (messages) {
      for (const { payload, rows, storedAt } of messages) known.addPayload(payload, rows, storedAt)
    }
  }
}

function toDeduplicated ({ sequence, deduplicated }: PartitionMessage): BatchRange['deduplicated'][number] {
  return [sequence, [...deduplicated!]]
}

/** Ascending rows as pairs `from, to` (exclusive): a batch that was sent twice is one pair, not thousands of rows. */
function toRanges (rows: readonly number[]): number[] {
  const ranges: number[] = []
  for (const row of rows) {
    if (ranges.length > 0 && ranges.at(-1) === row) ranges[ranges.length - 1] = row + 1
    else ranges.push(row, row + 1)
  }
  return ranges
}
