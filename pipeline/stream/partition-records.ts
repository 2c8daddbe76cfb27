/** Durable records of the partitions of events, and the bucket in NATS that keeps them. */
import { JetStreamApiError } from '@nats-io/jetstream'
import type { KvEntry } from '@nats-io/kv'
import { MillraceError } from '../../engines/errors.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import type { PartitionLedger } from '../../schema/wire/ledger.ts'
import { EVENT_CLASSES, PARTITIONS_BUCKET } from '../../schema/wire/streams.ts'
import { openLedger } from '../accounting/ledger-entries.ts'
import { partitionKey, type Partition } from './find-partitions.ts'

/**
 * Durable record of a partition: its owner, how far it is acknowledged, and the insert that may be under
 * way.
 *
 * ```
 *   partition:   ... 40  41 | 44  45  47 | 48  51 ...        (sequences of the stream; gaps belong to other partitions)
 *               acknowledged  range        still to come
 *                    ^ done           first = 44, last = 47
 * ```
 *
 * Every change is a compare-and-set on the record's revision, in this order:
 *
 * 1. `range` is recorded,
 * 2. its rows are inserted,
 * 3. `done` moves to its end, and the next batch range is recorded with it,
 * 4. the messages are acknowledged.
 *
 * Anyone who finds a batch range in the record therefore finds all its messages in the stream, and inserts exactly them
 * again, with the same token.
 */
export interface PartitionRecord {
  /** Process that writes the partition; empty when it was released. */
  owner: string
  /**
   * Identity of the stream's sequence numbers (see `adoptRecord` in partition-lease.ts), then `~` and how often tokens
   * had to become others; part of every token.
   */
  stream: string
  /** Every message of the partition up to this sequence is stored, deduplicated, or dead-lettered. */
  done: number
  /** When the stream received message `done`, epoch ms. A message at or below `done` that is younger is another one. */
  doneAt: number
  /**
   * Rows of the message after `done` that are acknowledged too. Above 0 only while a refused message is split by row.
   */
  doneRows: number
  /** The insert that was begun and whose messages are not yet acknowledged. */
  range: BatchRange | null
  /**
   * Batch ranges beyond `done` that are not repeated as they were, although their inserts may have stored rows: each
   * row of theirs is looked up before it is inserted in another batch range. Absent: none.
   */
  doubtful?: BatchRange[]
  counted: AcknowledgedCount
  /** What became of the events up to `done`. */
  ledger: PartitionLedger
}

/**
 * How many messages of the partition were acknowledged, so that the stream's numbers can be compared with what was
 * acknowledged: see `health/count-missing.ts`.
 */
export interface AcknowledgedCount {
  /** Sequence after which the counting began. */
  since: number
  messages: number
}

/** The tables that an insert goes to, and how its rows are split among them. */
export interface InsertTarget {
  /** Changes with the shards of the cluster, their order, weights and replicas; empty for one node. */
  split: string
  /**
   * Ids of the table `events` on the nodes that answered. Mostly one: nodes that are there when it is made share its
   * id. A table that is dropped and restored has another one.
   */
  tables: string[]
}

/** The exact content of one insert. */
export interface BatchRange {
  /** First and last sequence, both included. */
  first: number
  last: number
  /** Number of messages between them: ClickHouse recognises an insert by its number of blocks, too. */
  messages: number
  /** The rows `[from, to)` of the message `first` = `last`, when a message is inserted in pieces. */
  rows?: [from: number, to: number]
  /** Row layout of all its frames. */
  layout: number
  /** Version of `INSERT_SETTINGS`. */
  settings: number
  /** Where it was inserted; absent: by a version that did not record it. */
  target?: InsertTarget
  /** Of a doubtful one: `stream` of the record when it was inserted; absent: that of now. */
  stream?: string
  /** Ingest processes that received its messages: part of the token, which each row keeps. */
  receivedBy: string[]
  /** Rows that are not inserted because they are already stored: sequence, then pairs `from, to` (exclusive). */
  deduplicated: [sequence: number, ranges: number[]][]
}

/** The record of a partition of which nothing is known before now. */
export function newPartitionRecord (stream: string, now = Date.now()): PartitionRecord {
  return {
    owner: '', stream, done: 0, doneAt: 0, doneRows: 0, range: null, counted: { since: 0, messages: 0 }, ledger: openLedger(now)
  }
}

/**
 * The deduplication token of a batch range: same token, same rows. Rows keep it in `insert_token`, from which receipts
 * read it (`parseInsertToken` in api/events/receipts/stored-events.ts).
 *
 * @param current  `stream` of the record.
 */
export function batchRangeToken (partition: Partition, current: string, range: BatchRange): string {
  const { stream = current } = range
  const rows = range.rows === undefined ? '' : `:${range.rows[0]}-${range.rows[1]}`
  const { receivedBy } = range
  const processes = receivedBy.length === 0 ? '' : `@${receivedBy.join(',')}`
  return `${stream}:${partitionKey(partition)}:${range.first}-${range.last}${rows}${processes}`
}

/** JetStream API error "wrong last sequence": another process has written the key since it was read. */
const WRONG_LAST_SEQUENCE = 10071

/** Another process changed the record of the partition: this one no longer owns it. */
export class FencedError extends MillraceError {
  constructor (key: string, cause?: unknown) {
    super('MILLRACE_PARTITION_FENCED', `partition ${key} was taken over by another process`, { action: 'stop', cause })
    this.name = 'FencedError'
  }
}

/** The partition records in NATS: read by the leader, changed by compare-and-set only. */
export interface PartitionRecords {
  /** Records of all partitions that were ever written, by `partitionKey`. */
  list: () => Promise<Map<string, PartitionRecord>>
  /** A record, and the revision that a change of it must name. Revision 0: there is no record yet. */
  read: (partition: Partition) => Promise<{ record: PartitionRecord | null, revision: number }>
  /**
   * Replaces the record if no other process has changed it since `revision`.
   *
   * @param record  Null for none: an empty message, which makes a new revision.
   * @returns the new revision.
   * @throws {FencedError} when another process has. After any other error it is unknown whether it was replaced.
   */
  replace: (partition: Partition, record: PartitionRecord | null, revision: number) => Promise<number>
}

/** Opens the bucket of the records, and creates it when it is missing. */
export async function openPartitionRecords (
  connection: NatsConnection, options: { replicas: number }
): Promise<PartitionRecords> {
  const bucket = await openBucket(connection, PARTITIONS_BUCKET, options)
  return {
    list: async () => {
      const records = new Map<string, PartitionRecord>()
      for await (const key of await bucket.keys(EVENT_CLASSES.map((eventClass) => `${eventClass}.*`))) {
        const entry = await bucket.get(key)
        if (entry !== null && isRecord(entry)) records.set(key, entry.json<PartitionRecord>())
      }
      return records
    },
    read: async (partition) => {
      const entry = await bucket.get(partitionKey(partition))
      if (entry === null) return { record: null, revision: 0 }
      return { record: isRecord(entry) ? entry.json<PartitionRecord>() : null, revision: entry.revision }
    },
    replace: async (partition, record, revision) => {
      try {
        return await bucket.put(partitionKey(partition), record === null ? '' : JSON.stringify(record), { previousSeq: revision })
      } catch (error) {
        if (error instanceof JetStreamApiError && error.code === WRONG_LAST_SEQUENCE) {
          throw new FencedError(partitionKey(partition), error)
        }
        throw error
      }
    }
  }
}

/** A key that was removed, or has no record yet, is an empty message. */
function isRecord ({ operation, length }: KvEntry): boolean {
  return operation === 'PUT' && length > 0
}
