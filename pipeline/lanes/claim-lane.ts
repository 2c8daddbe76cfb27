import { jetstreamManager, type StreamInfo } from '@nats-io/jetstream'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { EVENTS_STREAM } from '../../schema/streams.ts'
import { newLaneRecord, type Lane, type LaneRecord } from './lane-record.ts'
import { type LaneRecords } from './lane-records.ts'

/**
 * How long a successful compare-and-set proves ownership, in milliseconds of the monotonic clock. Less than
 * `DEAD_AFTER_MS`, after which another process takes a silent one's lanes: so a paused owner that wakes up finds its
 * proof expired, asks again before it inserts, and is refused.
 *
 * A pause between that look at the clock and the bytes on the wire cannot be excluded by any clock. It is harmless:
 * the new owner first repeats the recorded cut with the same token, so ClickHouse drops whichever comes second.
 */
const PROOF_MS = 4000

/** The right to write a lane: its record, and the revision that every change must name. */
export class LaneHold {
  readonly lane: Lane
  /** Last known durable state. */
  record: LaneRecord
  readonly #records: LaneRecords
  #revision: number
  #provenAt: number

  constructor (lane: Lane, records: LaneRecords, stored: { record: LaneRecord, revision: number, provenAt: number }) {
    this.lane = lane
    this.#records = records
    this.record = stored.record
    this.#revision = stored.revision
    this.#provenAt = stored.provenAt
  }

  /** @throws {FencedError} when the lane has another owner; any other error leaves open what is recorded. */
  async write (record: LaneRecord): Promise<void> {
    const askedAt = performance.now()
    this.#revision = await this.#records.replace(this.lane, record, this.#revision)
    this.record = record
    this.#provenAt = askedAt
  }

  /** Makes sure that the lane is still held, asking NATS only when the last answer is too old. */
  async prove (): Promise<void> {
    if (!this.isProven()) await this.write(this.record)
  }

  isProven (): boolean {
    return performance.now() - this.#provenAt < PROOF_MS
  }
}

/** What a process found when it took a lane. */
export interface ClaimedLane {
  hold: LaneHold
  /** This process wrote the lane before and nobody else since: what it remembers of the lane is complete. */
  wasMine: boolean
}

/**
 * Takes a lane, or returns null while its owner is alive.
 *
 * @param options.isAlive  Tells whether the owner named in the record still works.
 * @throws {FencedError} when another process was quicker.
 */
export async function claimLane (lane: Lane, options: {
  connection: NatsConnection
  records: LaneRecords
  owner: string
  isAlive: (owner: string) => boolean
}): Promise<ClaimedLane | null> {
  const { records, owner } = options
  const found = await records.read(lane)
  const before = found.record
  if (before !== null && before.owner !== '' && before.owner !== owner && options.isAlive(before.owner)) return null

  const stream = await (await jetstreamManager(options.connection)).streams.info(EVENTS_STREAM)
  const record = { ...adoptRecord(before, stream), owner }
  const provenAt = performance.now()
  const revision = await records.replace(lane, record, found.revision)
  return { hold: new LaneHold(lane, records, { record, revision, provenAt }), wasMine: before?.owner === owner }
}

/**
 * Sequence numbers mean something only within one life of a stream. A stream that was made anew, or that lost its end
 * (power loss with a server that does not sync), gives numbers out again: then nothing of the old record holds, and
 * tokens must differ.
 */
function adoptRecord (record: LaneRecord | null, stream: StreamInfo): LaneRecord {
  const life = Date.parse(stream.created).toString(36)
  if (record === null || record.stream.split('~')[0] !== life) {
    const { first_seq: first, last_seq: last } = stream.state
    // A stream that never lost a message is counted from its start, any other from here.
    return { ...newLaneRecord(life), counted: { since: first > 1 ? last : 0, messages: 0, done: 0 } }
  }
  return record.done > stream.state.last_seq ? startNextLife(record, stream.state.last_seq) : record
}

/** The record after numbers above `done` were found to be given out a second time. */
export function startNextLife (record: LaneRecord, done: number): LaneRecord {
  const [life, count] = record.stream.split('~')
  return { ...newLaneRecord(`${life}~${Number(count ?? 0) + 1}`), owner: record.owner, done }
}
