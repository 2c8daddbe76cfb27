/** The lease of a partition of events: how it is claimed, renewed before each insert, and released. */
import type { StreamInfo } from '@nats-io/jetstream'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { carryLedger } from '../accounting/ledger-entries.ts'
import { partitionKey, type Partition } from './find-partitions.ts'
import { FencedError, newPartitionRecord, type PartitionRecord, type PartitionRecords } from './partition-records.ts'

/**
 * How long a lease holds after a successful compare-and-set, in milliseconds of the monotonic clock. Less than
 * `DEAD_AFTER_MS`, after which another process takes the partitions of a silent one: so a paused owner that wakes up
 * finds its lease expired, renews it before it inserts, and is refused.
 *
 * A pause between that check of the clock and the bytes on the wire cannot be excluded by any clock. It is harmless:
 * the new owner first repeats the recorded batch range with the same token, so ClickHouse drops whichever comes second.
 */
const LEASE_MS = 4000

/** A stream this young and without a record of the partition was never written by anyone, in milliseconds. */
const FRESH_STREAM_MS = 3_600_000

/** The right to write a partition: its record, and the revision that the next change must name. */
export class PartitionLease {
  readonly partition: Partition
  /** Last known durable state. */
  record: PartitionRecord
  readonly #records: PartitionRecords
  #revision: number
  #renewedAt: number

  constructor (
    partition: Partition, records: PartitionRecords,
    stored: { record: PartitionRecord, revision: number, renewedAt: number }
  ) {
    this.partition = partition
    this.#records = records
    this.record = stored.record
    this.#revision = stored.revision
    this.#renewedAt = stored.renewedAt
  }

  /** @throws {FencedError} when the partition has another owner; after any other error the record is unknown. */
  async write (record: PartitionRecord): Promise<void> {
    const askedAt = performance.now()
    this.#revision = await this.#records.replace(this.partition, record, this.#revision)
    this.record = record
    this.#renewedAt = askedAt
  }

  /** Makes sure that this process still owns the partition; asks NATS only when the last answer is too old. */
  async renew (): Promise<void> {
    if (performance.now() - this.#renewedAt >= LEASE_MS) await this.write(this.record)
  }
}

/** A partition that this process claimed. */
export interface ClaimedPartition {
  lease: PartitionLease
  /** The record belonged to another life of the stream, whose numbers say nothing of this one. */
  isNewLife: boolean
}

/**
 * Claims a partition; returns null while its owner is alive.
 *
 * @param options.isAlive  Tells whether the owner named in the record still works.
 * @param options.onTakeOver  Called before this process follows another owner, which may have stored events: after the
 *   answer to the claim was lost, the next one finds this process's own.
 * @throws {FencedError} when another process was quicker.
 */
export async function claimPartition (partition: Partition, options: {
  connection: NatsConnection
  records: PartitionRecords
  owner: string
  isAlive: (owner: string) => boolean
  onTakeOver: () => void
}): Promise<ClaimedPartition | null> {
  const { records, owner } = options
  const found = await records.read(partition)
  const before = found.record
  if (before !== null && before.owner !== '' && before.owner !== owner && options.isAlive(before.owner)) return null

  const stream = await readStreamInfo(await manageJetStream(options.connection), EVENTS_STREAM)
  const record = { ...adoptRecord(before, stream), owner }
  if (before?.owner !== owner) options.onTakeOver()
  const renewedAt = performance.now()
  const revision = await records.replace(partition, record, found.revision)
  const lease = new PartitionLease(partition, records, { record, revision, renewedAt })
  return { lease, isNewLife: before !== null && before.stream !== record.stream }
}

/**
 * Sequence numbers are valid only within one life of a stream. A stream that was re-created, or that lost its end
 * (power loss with a server that does not sync), reuses numbers: then nothing of the old record holds, and tokens must
 * differ.
 */
function adoptRecord (record: PartitionRecord | null, stream: StreamInfo): PartitionRecord {
  const life = Date.parse(stream.created).toString(36)
  if (record === null || record.stream.split('~')[0] !== life) {
    const { first_seq: first, last_seq: last } = stream.state
    // A stream that never lost a message is counted from its start, any other from here.
    const isWhole = first <= 1
    // Another partition may have acknowledged messages of a stream that was made a moment ago.
    const isFresh = isWhole || Date.now() - Date.parse(stream.created) < FRESH_STREAM_MS
    const openedAt = Math.floor(Date.parse(stream.created) / 60_000)
    return {
      ...newPartitionRecord(life),
      counted: { since: isWhole ? 0 : last, messages: 0 },
      ...(record !== null && { ledger: carryLedger(record, Date.now()) }),
      ...(record === null && isFresh && { ledger: { openedAt, entries: {} } })
    }
  }
  return record.done > stream.state.last_seq ? startNextLife(record, stream.state.last_seq) : record
}

/** What follows `stream` of a record: tokens of the same numbers are others. */
export function nextLifeOf (stream: string): string {
  const [life, count] = stream.split('~')
  return `${life}~${Number(count ?? 0) + 1}`
}

/** The record after the stream was found to reuse the numbers above `done`. */
export function startNextLife (record: PartitionRecord, done: number): PartitionRecord {
  return {
    ...newPartitionRecord(nextLifeOf(record.stream)), owner: record.owner, done,
    counted: { since: done, messages: 0 }, ledger: carryLedger(record, Date.now())
  }
}

export interface ReleasePartitionOptions {
  partition: Partition
  owner: string
  records: PartitionRecords
  logger: Logger
  /** The process ends; the others see that it is gone. */
  giveUp: AbortSignal
  /** Whether a claim of this process may be stored only now, because its answer was lost. Default true. */
  isClaimUnderWay?: boolean
}

/**
 * Releases the lease of a partition: removes this process from its record. A batch range that may be under way stays in
 * the record, and the next owner repeats it.
 *
 * Retries for as long as NATS is unavailable: a partition that is no longer written but still bears this owner would
 * stand still until this process ends. That is also why the record of another owner is written again as it is: a claim
 * of this process that is stored only now names a revision that has passed by then. That owner, if it is alive, is
 * refused once, and claims its partition again or releases it.
 */
export async function releasePartition (options: ReleasePartitionOptions): Promise<void> {
  const { promise: givenUp, resolve } = Promise.withResolvers<unknown>()
  options.giveUp.addEventListener('abort', resolve)
  // A request to NATS that is under way is not waited for.
  await Promise.race([keepReleasing(options), givenUp])
  options.giveUp.removeEventListener('abort', resolve)
}

async function keepReleasing (options: ReleasePartitionOptions): Promise<void> {
  const { partition, owner, records, logger, giveUp, isClaimUnderWay = true } = options
  // After a refusal the revision of a claim under way has passed, or that claim is what has just been stored.
  let hasPassed = !isClaimUnderWay
  for (let attempt = 0; !giveUp.aborted; attempt++) {
    try {
      const { record, revision } = await records.read(partition)
      const isOfOther = record?.owner !== owner
      if (hasPassed && isOfOther) return
      await records.replace(partition, isOfOther ? record : { ...record, owner: '' }, revision)
      return
    } catch (err) {
      hasPassed ||= err instanceof FencedError
      if (err instanceof FencedError) continue
      logger.warn({ err, partition: partitionKey(partition), attempt }, 'lease of a partition could not be released, will try again')
      await pause(retryDelayMs(attempt), giveUp)
    }
  }
}
