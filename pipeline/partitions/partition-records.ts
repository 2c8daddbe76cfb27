import { JetStreamApiError } from '@nats-io/jetstream'
import { type KV } from '@nats-io/kv'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { MillraceError } from '../../platform/errors.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { CUTS_BUCKET, EVENT_CLASSES } from '../../schema/streams.ts'
import { partitionKey, type Partition, type PartitionRecord } from './partition-record.ts'

/** JetStream API error "wrong last sequence": another process wrote the key since it was read. */
const WRONG_LAST_SEQUENCE = 10071

/** The record of the partition was changed by another process: this one does not own the partition any more. */
export class FencedError extends MillraceError {
  constructor (key: string, cause?: unknown) {
    super('PIPE_PARTITION_FENCED', `partition ${key} belongs to another process now`, { action: 'stop', cause })
    this.name = 'FencedError'
  }
}

/** A record with the revision that a change of it must name. Revision 0: there is none yet. */
export interface StoredPartitionRecord {
  record: PartitionRecord | null
  revision: number
}

/** The partition records in NATS: read by the leader, changed by compare-and-set only. */
export interface PartitionRecords {
  /** Records of all partitions that were ever written, by `partitionKey`. */
  list: () => Promise<Map<string, PartitionRecord>>
  read: (partition: Partition) => Promise<StoredPartitionRecord>
  /**
   * Replaces the record if nobody changed it since `revision`.
   *
   * @returns the new revision.
   * @throws {FencedError} when somebody did. Any other error leaves it open whether the record was replaced.
   */
  replace: (partition: Partition, record: PartitionRecord, revision: number) => Promise<number>
}

/** Opens the bucket of the records, and makes it when it is missing. */
export async function openRecordBucket (connection: NatsConnection, { replicas }: { replicas: number }): Promise<KV> {
  // Direct reads may come from a replica that lags; a record is read rarely, so it is always asked of the leader.
  return await openBucket(connection, CUTS_BUCKET, { history: 1, replicas, allow_direct: false })
}

export async function openPartitionRecords (
  connection: NatsConnection, options: { replicas: number }
): Promise<PartitionRecords> {
  const bucket = await openRecordBucket(connection, options)
  return {
    list: async () => {
      const records = new Map<string, PartitionRecord>()
      for await (const key of await bucket.keys(EVENT_CLASSES.map((eventClass) => `${eventClass}.*`))) {
        const entry = await bucket.get(key)
        if (entry?.operation === 'PUT') records.set(key, entry.json<PartitionRecord>())
      }
      return records
    },
    read: async (partition) => {
      const entry = await bucket.get(partitionKey(partition))
      if (entry === null) return { record: null, revision: 0 }
      return { record: entry.operation === 'PUT' ? entry.json<PartitionRecord>() : null, revision: entry.revision }
    },
    replace: async (partition, record, revision) => {
      try {
        return await bucket.put(partitionKey(partition), JSON.stringify(record), { previousSeq: revision })
      } catch (error) {
        if (error instanceof JetStreamApiError && error.code === WRONG_LAST_SEQUENCE) {
          throw new FencedError(partitionKey(partition), error)
        }
        throw error
      }
    }
  }
}
