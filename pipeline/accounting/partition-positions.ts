/** Where each partition of events stands: its books, and the insert that may be under way. */
import { setTimeout as delay } from 'node:timers/promises'
import type { PartitionLedger } from '../../schema/wire/ledger.ts'
import { EVENT_CLASSES, PARTITIONS_BUCKET } from '../../schema/wire/streams.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type BucketEntry, readBucket } from '../../platform/nats/stream-info.ts'
import type { PartitionRecord } from '../stream/partition-records.ts'

/** A partition's record, as far as the books need it. */
export interface PartitionPosition {
  entries: PartitionLedger['entries']
  /** Every event received in this minute or later is in the books. Minutes since 1970. */
  openedAt: number
  /**
   * The inserts that may have stored rows which are not in the books yet, each as a text that is the same as long as it
   * is the same insert.
   */
  underWay: readonly string[]
}

/** By partition. */
export type PartitionPositions = ReadonlyMap<string, PartitionPosition>

/**
 * Reads where all partitions stand that were ever written.
 *
 * @throws when NATS does not answer.
 */
export async function readPositions (connection: NatsConnection): Promise<PartitionPositions> {
  return new Map((await readRecords(connection)).map(({ key, value }) => [key, toPosition(value)]))
}

/** The bucket also keeps records about all partitions together, under other keys. */
async function readRecords (connection: NatsConnection): Promise<BucketEntry<PartitionRecord>[]> {
  const records = EVENT_CLASSES.map(async (eventClass) =>
    await readBucket<PartitionRecord>(connection, PARTITIONS_BUCKET, `${eventClass}.`))
  return (await Promise.all(records)).flat()
}

function toPosition ({ stream, done, range, doubtful = [], ledger }: PartitionRecord): PartitionPosition {
  const inserts = [...doubtful.filter(({ last }) => last > done), ...(range === null ? [] : [range])]
  return {
    entries: ledger.entries,
    openedAt: ledger.openedAt,
    underWay: inserts.map(({ stream: own = stream, ...insert }) => `${own} ${JSON.stringify(insert)}`)
  }
}

/** Interval of reading the records while inserts are waited for, in milliseconds. */
const POLL_MS = 200

/**
 * Waits until no insert of these is under way any more: what they stored is in the books then. An insert whose process
 * died or is paused ends when another process has repeated it.
 *
 * @returns false when the time is over.
 */
export async function waitUntilSettled (
  connection: NatsConnection, positions: PartitionPositions, { timeoutMs }: { timeoutMs: number }
): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  let open = [...positions].flatMap(([partition, { underWay }]) => underWay.map((insert) => ({ partition, insert })))
  while (open.length > 0) {
    const now = await readPositions(connection)
    open = open.filter(({ partition, insert }) => now.get(partition)?.underWay.includes(insert))
    if (open.length === 0) return true
    if (performance.now() > deadline) return false
    await delay(POLL_MS)
  }
  return true
}
