import { type BatchRange } from '../partitions/partition-record.ts'
import { type PartitionMessage } from '../writer/read/partition-message.ts'
import { confirmDuplicates, type Suspicion } from './confirm-duplicates.ts'
import { type DuplicateFilter } from './duplicate-filter.ts'
import { type KnownUuids } from './known-uuids.ts'
import { type LookUpEvents } from './look-up-events.ts'

export interface DuplicateFilterDeps {
  known: KnownUuids
  lookUpEvents: LookUpEvents
  /** Told how many rows are looked up in ClickHouse. */
  onLookUp: (rows: number) => void
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
        if (message.leftOut !== undefined || message.rows === 0) continue
        const coveredSince = known.coveredSince
        const knownRows = known.addPayload(message.payload, message.rows, message.storedAt)
        const madeBefore = lookUpAll || message.receivedAt < coveredSince
          ? Infinity
          : message.oldestUuidAt < coveredSince ? coveredSince : -Infinity
        if (knownRows.length > 0 || madeBefore !== -Infinity) suspicions.push({ message, knownRows, madeBefore })
      }
      const duplicates = suspicions.length === 0 ? null : await confirmDuplicates(messages, { ...deps, suspicions })
      for (const message of messages) message.leftOut ??= toRanges(duplicates?.get(message) ?? [])
      return messages.filter(({ leftOut }) => leftOut!.length > 0).map(toLeftOut)
    },

    remember (messages) {
      for (const { payload, rows, storedAt } of messages) known.addPayload(payload, rows, storedAt)
    }
  }
}

function toLeftOut ({ sequence, leftOut }: PartitionMessage): BatchRange['leftOut'][number] {
  return [sequence, [...leftOut!]]
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
