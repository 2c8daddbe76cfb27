import type { JetStreamManager } from '@nats-io/jetstream'
import type { KV } from '@nats-io/kv'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { EVENTS_STREAM, eventsSubject, writerConsumer, type EventClass } from '../../schema/wire/streams.ts'
import type { PartitionRecords } from '../stream/partition-records.ts'

/** Key of the result, beside the records of the partitions. */
const KEY = 'missing'

/** How often in a row a result must be the same: its numbers come from several answers of JetStream. */
const CONFIRMATIONS = 3

/** Messages of EVENTS that vanished since the stream was created. */
export interface MissingMessages {
  /** The life of the stream that is meant. */
  stream: string
  /** Where each partition began to count. */
  since: Record<string, number>
  /** Last sequence that was seen. */
  last: number
  /** Sequences that the stream reused after it had lost its end: they count twice. */
  again: number
  /** Messages that had left the stream before all partitions counted; null until that is known. */
  before: number | null
  missing: number
  /** When messages were last found missing, and how many at that time. */
  found: { at: number, messages: number } | null
}

/** The result of one count. */
export interface MissingReading extends MissingMessages {
  /** This process found it in this count, and it was not known before. */
  isNews: boolean
}

/** The numbers of one moment. */
interface StreamNumbers {
  stream: string
  since: Record<string, number>
  last: number
  acknowledged: number
  waiting: number
  /** Nothing waited and nothing came: the numbers are exact. */
  isQuiet: boolean
}

/**
 * Compares how many messages EVENTS was given with how many were acknowledged and how many wait, over all partitions:
 *
 * ```
 *   last sequence = acknowledged + waiting + missing
 * ```
 *
 * A work queue forgets only what the pipeline acknowledged, so the rest vanished: a block of the stream's files is
 * damaged, or an operator removed messages. nats-server (2.15.1) skips a message that it cannot read with a line in its
 * log only, or removes everything behind it from the stream when it starts after a crash.
 *
 * Stream, consumers and records are read in this order: a message that arrives or is acknowledged meanwhile is counted
 * twice, so the result is too low rather than a false alarm.
 */
export class MissingCounter {
  readonly #connection: NatsConnection
  readonly #records: PartitionRecords
  readonly #bucket: KV
  #suspected: number[] = []
  /** What an empty stream was counted with until the same result was found often enough. */
  #settled: { created: string, last: number, result: MissingReading } | null = null

  /** @param bucket  Of the records; what was found is kept there, for all processes and the next ones. */
  constructor (options: { connection: NatsConnection, records: PartitionRecords, bucket: KV }) {
    this.#connection = options.connection
    this.#records = options.records
    this.#bucket = options.bucket
  }

  /**
   * @returns the current count; null while partitions are being claimed.
   * @throws when JetStream does not answer within 2.5 s, as any request of ours: the next count is soon enough.
   */
  async count (): Promise<MissingReading | null> {
    const manager = await manageJetStream(this.#connection)
    const { created, state } = await readStreamInfo(manager, EVENTS_STREAM)
    const settled = this.#settled
    if (settled?.created === created && settled.last === state.last_seq && state.messages === 0) return settled.result
    // Read first what other processes saw: the last sequence never goes back by itself.
    const entry = await this.#bucket.get(KEY)
    const now = await this.#readNumbers(manager)
    if (now === null) return null
    const stored = entry?.operation === 'PUT' ? entry.json<MissingMessages>() : null
    const { known, missing } = judge(stored?.stream === now.stream ? stored : newMissing(now), now)
    this.#suspected = missing === null ? [] : [...this.#suspected, missing].slice(-CONFIRMATIONS)
    const sure = this.#suspected.length < CONFIRMATIONS ? 0 : Math.min(...this.#suspected)
    const next = sure <= known.missing
      ? known
      : { ...known, missing: sure, found: { at: Date.now(), messages: sure - known.missing } }
    if (JSON.stringify(next) === JSON.stringify(stored)) {
      const result = { ...next, isNews: false }
      const isSure = now.isQuiet && this.#suspected.length === CONFIRMATIONS && new Set(this.#suspected).size === 1
      this.#settled = isSure ? { created, last: now.last, result } : null
      return result
    }
    // If another process was faster, it has reported the result.
    const isWritten = await this.#bucket.put(KEY, JSON.stringify(next), { previousSeq: entry?.revision ?? 0 })
      .then(() => true, () => false)
    return { ...next, isNews: isWritten && next !== known }
  }

  async #readNumbers (manager: JetStreamManager): Promise<StreamNumbers | null> {
    const { created, state } = await readStreamInfo(manager, EVENTS_STREAM, { subjects_filter: '>' })
    const stream = Date.parse(created).toString(36)
    const writers = new Map([...(await this.#records.list()).keys()].map((partition) => {
      const [eventClass, number] = partition.split('.') as [EventClass, string]
      return [eventsSubject(eventClass, Number(number)), writerConsumer(eventClass, Number(number))]
    }))
    if (writers.size === 0 || Object.keys(state.subjects ?? {}).some((subject) => !writers.has(subject))) return null

    let waiting = 0
    for (const [subject, writer] of writers) {
      const consumer = await manager.consumers.info(EVENTS_STREAM, writer).catch(() => null)
      // It is being re-created; a partition that is no longer written has none, and nothing waits in it.
      if (consumer === null && state.subjects?.[subject] !== undefined) return null
      waiting += (consumer?.num_pending ?? 0) + (consumer?.num_ack_pending ?? 0)
    }
    const records = await this.#records.list()
    // Partitions that are not claimed yet in this life of the stream have acknowledged nothing of it.
    const counts = [...records].filter(([, record]) => record.stream.split('~')[0] === stream)
      .map(([partition, record]) => [partition, record.counted] as const)
    const acknowledged = counts.reduce((sum, [, { messages }]) => sum + messages, 0)
    const isQuiet = waiting === 0 && (await readStreamInfo(manager, EVENTS_STREAM)).state.last_seq === state.last_seq
    return {
      stream,
      since: Object.fromEntries(counts.map(([partition, { since }]) => [partition, since])),
      last: state.last_seq,
      acknowledged,
      waiting,
      isQuiet
    }
  }
}

/**
 * Updates the count to the present.
 *
 * @returns `missing` as it seems now; null while that is unknown.
 */
function judge (before: MissingMessages, now: StreamNumbers): { known: MissingMessages, missing: number | null } {
  const again = before.again + Math.max(0, before.last - now.last)
  const known = { ...before, last: now.last, again }
  // Messages unaccounted for: stored once, neither acknowledged nor waiting. Too low for a moment, never too high.
  const unknown = now.last + again - now.waiting - now.acknowledged
  const isSameCount = Object.entries(now.since).every(([partition, since]) => (known.since[partition] ?? 0) === since)
  if (known.before !== null && isSameCount) return { known, missing: unknown - known.before }
  if (!now.isQuiet) return { known, missing: null }
  return { known: { ...known, since: now.since, before: unknown - known.missing }, missing: known.missing }
}

/** A stream whose partitions counted from its first message on is known from the start. */
function newMissing ({ stream, since, last }: StreamNumbers): MissingMessages {
  const isFromStart = Object.values(since).every((from) => from === 0)
  return { stream, since, last, again: 0, before: isFromStart ? 0 : null, missing: 0, found: null }
}
