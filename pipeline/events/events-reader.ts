/** The messages of one partition of events, from the stream to the memory of the writer, and their acknowledgement. */
import type { JetStreamManager } from '@nats-io/jetstream'
import type { Msg } from '@nats-io/transport-node'
import { MillraceError } from '../../engines/errors.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { FINGERPRINT_BYTES, frameOf } from '../../schema/wire/frame-message.ts'
import { EVENTS_STREAM, eventsSubject, HEADER, writerConsumer } from '../../schema/wire/streams.ts'
import { type MessagePlace, OrderedPulls, recreateConsumer } from '../stream/ordered-pulls.ts'
import type { Partition } from '../stream/find-partitions.ts'

/** Messages per pull. More would save no time, and cost memory when messages are tiny. */
const PULL_MESSAGES = 1000

/**
 * JetStream delivers a message again after this long. It never needs to: a lost delivery shows as a gap in the delivery
 * numbers, and then the consumer is re-created.
 */
const ACK_WAIT_MS = 6 * 3_600_000

/** A message of EVENTS as the writer sees it: nothing of its payload is decoded. */
export interface PartitionMessage {
  sequence: number
  /** When the stream stored it, epoch milliseconds. */
  storedAt: number
  /** Rows of the frame; 0 when the headers are invalid: then the payload counts as no frame. */
  rows: number
  /** Row layout; -1 when the headers are invalid. */
  layout: number
  /** When ingest received the first event of the message, epoch milliseconds. Long ago for a spooled message. */
  receivedAt: number
  /**
   * When the oldest uuid of the message was made, epoch milliseconds (`UNTIMED_UUID_AT`); Infinity when none tells,
   * -Infinity when each has to be looked up.
   */
  oldestUuidAt: number
  /** Under which key the fingerprints' checks are made; empty when they have none. */
  keyId: string
  /** Rows that were found to be duplicates, as pairs `from, to` (exclusive); undefined until that is decided. */
  deduplicated?: readonly number[]
  payload: Uint8Array
  /** The zstd frame: a view of the payload. */
  frame: Uint8Array
  headers: Record<string, string>
  ackSubject: string
}

export interface ReaderOptions {
  /** Compressed bytes that may wait in memory, plus one pull of the same size. */
  maxBytes: number
  /** Called for each message with its delay in the stream while a pull waited for it, in seconds. */
  onDelay?: (seconds: number) => void
}

/** The reader may have missed messages; the partition starts over from its record. */
export class ReaderError extends MillraceError {
  constructor (message: string, cause?: unknown) {
    super('MILLRACE_EVENTS_READER_LOST', message, { action: 'retry', cause })
    this.name = 'ReaderError'
  }
}

/**
 * Reads one partition from its first unacknowledged message on, in order and without gaps.
 *
 * The durable consumer of the partition is re-created, so the reader of a previous owner receives nothing more, and
 * what it had taken without acknowledging comes again. The reader fails, and is opened again, at the first doubt: a
 * lost connection, a gap in the delivery numbers, a missing heartbeat.
 */
export class EventsReader {
  /** Messages that arrived and were not taken yet, in order. */
  readonly buffer: PartitionMessage[] = []
  bufferedBytes = 0
  /** Why the reader can no longer be used; null while it can. */
  failure: ReaderError | null = null

  readonly #connection: NatsConnection
  readonly #manager: JetStreamManager
  readonly #consumer: string
  readonly #pulls: OrderedPulls
  #lastSequence = 0
  #unacknowledged = 0
  /** Number of deliveries that had arrived when the server reported more. */
  #suspectedAt = -1

  constructor (connection: NatsConnection, manager: JetStreamManager, from: { consumer: string } & ReaderOptions) {
    this.#connection = connection
    this.#manager = manager
    this.#consumer = from.consumer
    this.#pulls = new OrderedPulls({
      connection,
      stream: EVENTS_STREAM,
      consumer: from.consumer,
      pull: { messages: PULL_MESSAGES, bytes: from.maxBytes },
      // This bounds the memory of the partition.
      hasRoom: () => this.bufferedBytes < from.maxBytes && this.buffer.length < PULL_MESSAGES * 10,
      onMessage: (message, place) => this.#receive(readPartitionMessage(message, place)),
      ...(from.onDelay && { onDelay: from.onDelay }),
      onLost: (why, cause) => this.fail(why, cause)
    })
  }

  close (): void {
    this.failure ??= new ReaderError('reader of a partition was closed')
    this.#pulls.close()
  }

  fail (why: string, cause?: unknown): void {
    this.failure ??= new ReaderError(`reader of a partition must start over: ${why}`, cause)
    this.close()
  }

  /** Removes the first `count` messages of the buffer and makes room for more. */
  take (count: number): PartitionMessage[] {
    const taken = this.buffer.splice(0, count)
    for (const message of taken) this.bufferedBytes -= message.payload.length
    this.#pulls.pullMore()
    return taken
  }

  /** Puts messages back that were taken, to be chosen again in smaller batches. */
  putBack (messages: readonly PartitionMessage[]): void {
    this.buffer.unshift(...messages)
    for (const message of messages) this.bufferedBytes += message.payload.length
  }

  /** Acknowledges messages. A lost acknowledgement is harmless: the message comes again, and is below `done`. */
  acknowledge (messages: readonly PartitionMessage[]): void {
    for (const message of messages) this.#connection.publish(message.ackSubject)
    this.#unacknowledged -= messages.length
  }

  /** Resolves when something arrived, the reader failed, the time is over, or the signal fired. Never rejects. */
  async waitForMore (timeoutMs: number, signal: AbortSignal): Promise<void> {
    await this.#pulls.waitForMore(timeoutMs, signal)
  }

  /**
   * Asks the server how much is pending, and compares what it delivered with what arrived: the loss of the last
   * delivery leaves no gap in the numbers.
   *
   * @returns the number of messages not yet acknowledged, delivered to this reader or waiting in the stream.
   */
  async readPending (): Promise<number> {
    const expected = this.#pulls.deliveries
    const { delivered, num_pending: waiting } = await this.#manager.consumers.info(EVENTS_STREAM, this.#consumer)
    if (delivered.consumer_seq > expected && this.#pulls.deliveries === expected && this.failure === null) {
      // Deliveries may be on their way. They count as lost when nothing arrived between two checks.
      if (this.#suspectedAt === expected) this.fail(`${delivered.consumer_seq - expected} deliveries never arrived`)
      this.#suspectedAt = expected
    } else {
      this.#suspectedAt = -1
    }
    return waiting + this.#unacknowledged
  }

  /** Whether the stream has this message. @throws {LeaderlessError} when no server can say that it has not. */
  async isInStream (sequence: number): Promise<boolean> {
    if (await this.#manager.streams.getMessage(EVENTS_STREAM, { seq: sequence }) !== null) return true
    // A leader that was cut off does not have it either.
    await readStreamInfo(this.#manager, EVENTS_STREAM)
    return false
  }

  #receive (message: PartitionMessage): void {
    // Handed out again after the very long ack wait: this reader holds it, or acknowledged it.
    if (message.sequence <= this.#lastSequence) return
    this.#lastSequence = message.sequence
    this.#unacknowledged++
    this.buffer.push(message)
    this.bufferedBytes += message.payload.length
  }
}

/**
 * Opens the reader of a partition, which from then on is the only one.
 *
 * @throws when JetStream does not answer or the stream is missing.
 */
export async function openEventsReader (
  connection: NatsConnection, { eventClass, number }: Partition, options: ReaderOptions
): Promise<EventsReader> {
  const manager = await manageJetStream(connection)
  const consumer = writerConsumer(eventClass, number)
  await recreateConsumer(manager, {
    stream: EVENTS_STREAM, name: consumer, subject: eventsSubject(eventClass, number), ackWaitMs: ACK_WAIT_MS
  })
  return new EventsReader(connection, manager, { consumer, ...options })
}

/**
 * Reads what the writer needs from a message of the events stream. Never throws: a message without sensible headers
 * gets layout -1 and is dead-lettered in its turn.
 */
function readPartitionMessage (message: Msg, { sequence, storedUs, ackSubject }: MessagePlace): PartitionMessage {
  const storedAt = Math.floor(storedUs / 1000)
  const headers: Record<string, string> = {}
  for (const [name, values] of message.headers ?? []) headers[name] = values[0] ?? ''
  const payload = message.data
  const rows = readInteger(headers[HEADER.rows])
  const layout = readInteger(headers[HEADER.layout])
  const sane = rows > 0 && layout >= 0 && payload.length > rows * FINGERPRINT_BYTES
  return {
    sequence,
    storedAt,
    rows: sane ? rows : 0,
    layout: sane ? layout : -1,
    receivedAt: readInteger(headers[HEADER.received], storedAt),
    oldestUuidAt: headers[HEADER.lookUp] === '1' ? -Infinity : readInteger(headers[HEADER.oldestUuid], Infinity),
    keyId: headers[HEADER.fingerprintKey] ?? '',
    payload,
    frame: sane ? frameOf(payload, rows) : payload,
    headers,
    ackSubject
  }
}

function readInteger (text: string | undefined, otherwise = -1): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : otherwise
}
