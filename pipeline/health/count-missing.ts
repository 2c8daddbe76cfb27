import { jetstreamManager, type JetStreamManager } from '@nats-io/jetstream'
import { type KV } from '@nats-io/kv'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { EVENTS_STREAM, eventsSubject, writerConsumer, type EventClass } from '../../schema/streams.ts'
import { acknowledgedCount, type PartitionRecord, type PartitionRecords } from '../partitions/partition-records.ts'

/** Key of what was found, beside the records of the partitions. */
const KEY = 'missing'

/** What was found must be found so often in a row: the numbers come from several answers of JetStream. */
const CONFIRMATIONS = 3

/** Messages of EVENTS that vanished, since the stream was made. */
export interface MissingMessages {
  /** The life of the stream that is meant. */
  stream: string
  /** Where each partition began to count. */
  since: Record<string, number>
  /** Last sequence that was seen. */
  last: number
  /** Sequences that the stream gave out again after it had lost its end: they count twice. */
  again: number
  /** Messages that had left the stream before all partitions counted; null until that is known. */
  before: number | null
  missing: number
  /** The last time that some were found, and how many at that time. */
  found: { at: number, messages: number } | null
}

/** What one look found. */
export interface MissingReading extends MissingMessages {
  /** Found by this process in this look, and not known before. */
  isNews: boolean
}

/** The numbers of one moment. */
interface Look {
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
 * A work queue only forgets what the pipeline acknowledged, so the rest is gone: a block of the stream's files is
 * damaged, or somebody removed messages by hand. nats-server (2.15.1) passes over a message that it cannot read without
 * a word to anybody but its log, or takes everything behind it out of the stream when it starts after a crash.
 *
 * The questions are asked in the order stream, consumers, records: a message that comes or is acknowledged meanwhile is
 * counted twice, so that the result is too low rather than a false alarm.
 */
export class MissingCounter {
  readonly #connection: NatsConnection
  readonly #records: PartitionRecords
  readonly #bucket: KV
  #suspected: number[] = []

  /** @param bucket  Of the records; what was found is kept there, for all processes and the next ones. */
  constructor (options: { connection: NatsConnection, records: PartitionRecords, bucket: KV }) {
    this.#connection = options.connection
    this.#records = options.records
    this.#bucket = options.bucket
  }

  /**
   * @returns what is known now; null while partitions are about to be claimed, so that nothing can be said.
   * @throws when JetStream does not answer.
   */
  async look (): Promise<MissingReading | null> {
    // What another process saw comes first: the last sequence never goes back by itself.
    const entry = await this.#bucket.get(KEY)
    const now = await this.#readNumbers(await jetstreamManager(this.#connection))
    if (now === null) return null
    const stored = entry?.operation === 'PUT' ? entry.json<MissingMessages>() : null
    const { known, missing } = judge(stored?.stream === now.stream ? stored : newMissing(now), now)
    this.#suspected = missing === null ? [] : [...this.#suspected, missing].slice(-CONFIRMATIONS)
    const sure = this.#suspected.length < CONFIRMATIONS ? 0 : Math.min(...this.#suspected)
    const next = sure <= known.missing
      ? known
      : { ...known, missing: sure, found: { at: Date.now(), messages: sure - known.missing } }
    if (JSON.stringify(next) === JSON.stringify(stored)) return { ...next, isNews: false }
    // Where another process was quicker, it said what there is to say.
    const isWritten = await this.#bucket.put(KEY, JSON.stringify(next), { previousSeq: entry?.revision ?? 0 })
      .then(() => true, () => false)
    return { ...next, isNews: isWritten && next !== known }
  }

  async #readNumbers (manager: JetStreamManager): Promise<Look | null> {
    const { created, state } = await manager.streams.info(EVENTS_STREAM, { subjects_filter: '>' })
    const stream = Date.parse(created).toString(36)
    const partitions = [...(await this.#records.list()).keys()]
    if (partitions.length === 0) return null
    const subjects = partitions.map((partition) => subjectOf(partition))
    if (Object.keys(state.subjects ?? {}).some((subject) => !subjects.includes(subject))) return null

    let waiting = 0
    for (const partition of partitions) {
      const [eventClass, number] = partition.split('.') as [EventClass, string]
      const name = writerConsumer(eventClass, Number(number))
      const consumer = await manager.consumers.info(EVENTS_STREAM, name).catch(() => null)
      // It is just re-created; a partition that is written no more has none, and nothing waits in it.
      if (consumer === null && state.subjects?.[subjectOf(partition)] !== undefined) return null
      waiting += (consumer?.num_pending ?? 0) + (consumer?.num_ack_pending ?? 0)
    }
    const records = await this.#records.list()
    // Partitions that are not claimed yet in this life of the stream have acknowledged nothing of it.
    const counts = [...records].filter(([, record]) => lifeOf(record) === stream)
      .map(([partition, record]) => [partition, acknowledgedCount(record)] as const)
    const acknowledged = counts.reduce((sum, [, { messages }]) => sum + messages, 0)
    const isQuiet = waiting === 0 && (await manager.streams.info(EVENTS_STREAM)).state.last_seq === state.last_seq
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
 * Brings what is known to this moment.
 *
 * @returns `missing` as it seems now; null while nobody can tell.
 */
function judge (before: MissingMessages, now: Look): { known: MissingMessages, missing: number | null } {
  const again = before.again + Math.max(0, before.last - now.last)
  const known = { ...before, last: now.last, again }
  // Messages of which nobody knows: given out, neither acknowledged nor waiting. Too low for a moment, never too high.
  const unknown = now.last + again - now.waiting - now.acknowledged
  const isSameCount = Object.entries(now.since).every(([partition, since]) => (known.since[partition] ?? 0) === since)
  if (known.before !== null && isSameCount) return { known, missing: unknown - known.before }
  if (!now.isQuiet) return { known, missing: null }
  return { known: { ...known, since: now.since, before: unknown - known.missing }, missing: known.missing }
}

/** A stream whose partitions counted from its first message on is known from the start. */
function newMissing ({ stream, since, last }: Look): MissingMessages {
  const isFromStart = Object.values(since).every((from) => from === 0)
  return { stream, since, last, again: 0, before: isFromStart ? 0 : null, missing: 0, found: null }
}

function subjectOf (partition: string): string {
  const [eventClass, number] = partition.split('.') as [EventClass, string]
  return eventsSubject(eventClass, Number(number))
}

function lifeOf (record: PartitionRecord): string {
  return record.stream.split('~')[0] ?? ''
}
