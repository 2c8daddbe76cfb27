import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { WatchLeases } from '../../platform/nats/watch-leases.ts'
import { FINGERPRINT_BYTES } from '../../schema/wire/frame-message.ts'
import { encodeFates, type Fate, FATES_SUBJECT } from '../../schema/wire/live-feed.ts'
import type { BatchRange } from '../stream/partition-records.ts'
import { gapsWithin, rangesWithin, type RowRange } from './duplicates/row-ranges.ts'
import type { PartitionMessage } from './events-reader.ts'

/** Rows in one report: well below the largest message of a server with its default of 1 MiB. */
const MAX_ROWS = 60_000

/** Tells the live feed what became of rows, while somebody watches. Never throws, never waits. */
export interface FateReporter {
  /** The rows of a batch range are stored, except for its duplicates. */
  stored (messages: readonly PartitionMessage[], range: BatchRange): void
  /** A row was dead-lettered; without a row the whole message, which then has no rows that could be named. */
  deadLettered (message: PartitionMessage, row?: number): void
}

/** @param connection  Where watchers are heard of and reports go. */
export function createFateReporter (connection: NatsConnection): FateReporter {
  const leases = new WatchLeases()
  leases.listen(connection)

  function publish (fate: Fate, fingerprints: Uint8Array): void {
    const at = Date.now()
    for (let from = 0; from < fingerprints.length; from += MAX_ROWS * FINGERPRINT_BYTES) {
      const part = fingerprints.subarray(from, from + MAX_ROWS * FINGERPRINT_BYTES)
      connection.publish(FATES_SUBJECT, encodeFates({ fate, at, fingerprints: part }))
    }
  }

  return {
    stored (messages, range) {
      if (!leases.isAnyone) return
      const { stored, duplicates } = splitFingerprints(messages, range)
      try {
        publish('stored', stored)
        publish('duplicate', duplicates)
      } catch {
        // A closed connection: the partition finds out by its own means, and the feed shows the rows as waiting.
      }
    },
    deadLettered ({ payload }, row) {
      if (!leases.isAnyone || row === undefined) return
      try {
        publish('dead_letter', payload.subarray(row * FINGERPRINT_BYTES, (row + 1) * FINGERPRINT_BYTES))
      } catch {
        // As above.
      }
    }
  }
}

/** The fingerprints of the rows of a batch range: those stored, and those left out as duplicates. */
export function splitFingerprints (
  messages: readonly PartitionMessage[], range: Pick<BatchRange, 'rows' | 'deduplicated'>
): { stored: Uint8Array, duplicates: Uint8Array } {
  const deduplicated = new Map(range.deduplicated)
  const stored: Uint8Array[] = []
  const duplicates: Uint8Array[] = []
  for (const { sequence, rows, payload } of messages) {
    const [from, to] = range.rows ?? [0, rows]
    const slice = ([first, end]: RowRange): Uint8Array =>
      payload.subarray(first * FINGERPRINT_BYTES, end * FINGERPRINT_BYTES)
    const pairs = deduplicated.get(sequence) ?? []
    stored.push(...gapsWithin(pairs, from, to).map(slice))
    duplicates.push(...rangesWithin(pairs, from, to).map(slice))
  }
  return { stored: Buffer.concat(stored), duplicates: Buffer.concat(duplicates) }
}
