import { jetstreamManager, type JetStreamManager } from '@nats-io/jetstream'
import { createInbox, type Msg, type Subscription } from '@nats-io/transport-node'
import { type NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { MillraceError } from '../../../platform/errors.ts'
import { EVENTS_STREAM, MAX_MESSAGE_BYTES, writerConsumer } from '../../../schema/streams.ts'
import { type Lane } from '../../lanes/lane-record.ts'
import { readLaneMessage, type LaneMessage } from './lane-message.ts'
import { recreateConsumer } from './recreate-consumer.ts'

/** How long a pull waits for messages, and how often the server says that it is still there, in milliseconds. */
const PULL_EXPIRES_MS = 30_000
const HEARTBEAT_MS = 5_000

/** Messages of one pull. A round trip for a thousand is nothing; more would only blow memory up for tiny messages. */
const PULL_MESSAGES = 1000

/** Larger than any message with its headers, so that a pull of this size is always answered. */
const LARGEST_PULL_BYTES = MAX_MESSAGE_BYTES + 1_048_576

/** The reader lost its place; the lane starts over from its record. */
export class ReaderError extends MillraceError {
  constructor (message: string, cause?: unknown) {
    super('PIPE_READER_LOST', message, { action: 'retry', cause })
    this.name = 'ReaderError'
  }
}

/** What the stream holds of a lane that nobody acknowledged yet. */
export interface LanePending {
  /** Messages handed to this reader or waiting in the stream. */
  messages: number
  /** Last sequence of the stream, whatever its lane. */
  lastSequence: number
}

/**
 * Reads one lane from its first unacknowledged message on, in order and without gaps.
 *
 * The durable consumer of the lane is deleted and made anew, so a previous owner's reader is cut off, and what it had
 * taken without acknowledging comes again. All of it is lost and found again on every doubt: disconnection, a gap in
 * the delivery numbers, a missing heartbeat.
 */
export class LaneReader {
  readonly lane: Lane
  /** Messages that arrived and were not taken yet, in order. */
  readonly buffer: LaneMessage[] = []
  bufferedBytes = 0
  /** Set once the reader is of no use any more. */
  failure: ReaderError | null = null

  readonly #connection: NatsConnection
  readonly #manager: JetStreamManager
  readonly #inbox: string
  readonly #maxBytes: number
  #subscription: Subscription | null = null
  #pull = 0
  #pullLeft = 0
  #pullGotAny = false
  #pullBytes: number
  #lastSignAt = 0
  #nextDelivery = 1
  #lastSequence = 0
  #unacknowledged = 0
  #watchdog: NodeJS.Timeout | null = null
  #wake: (() => void) | null = null

  constructor (lane: Lane, connection: NatsConnection, manager: JetStreamManager, maxBytes: number) {
    this.lane = lane
    this.#connection = connection
    this.#manager = manager
    this.#inbox = createInbox()
    this.#maxBytes = maxBytes
    this.#pullBytes = maxBytes
  }

  /** Makes the consumer anew and starts to read. */
  async open (): Promise<void> {
    await recreateConsumer(this.#manager, this.lane)
    this.#subscription = this.#connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => error ? this.fail('subscription refused', error) : this.#receive(message)
    })
    this.#watchdog = setInterval(() => this.#watch(), HEARTBEAT_MS)
    this.#watchdog.unref()
    this.#requestMore()
  }

  close (): void {
    this.failure ??= new ReaderError('closed')
    if (this.#watchdog !== null) clearInterval(this.#watchdog)
    if (this.#subscription !== null && !this.#subscription.isClosed()) this.#subscription.unsubscribe()
    this.#wakeUp()
  }

  fail (why: string, cause?: unknown): void {
    this.failure ??= new ReaderError(`reader of lane lost its place: ${why}`, cause)
    this.close()
  }

  /** Removes the first `count` messages of the buffer and makes room for more. */
  take (count: number): LaneMessage[] {
    const taken = this.buffer.splice(0, count)
    for (const message of taken) {
      this.bufferedBytes -= message.payload.length
    }
    this.#requestMore()
    return taken
  }

  /** Puts messages back that were taken, to be chosen again in smaller batches. */
  putBack (messages: readonly LaneMessage[]): void {
    this.buffer.unshift(...messages)
    for (const message of messages) this.bufferedBytes += message.payload.length
  }

  /** Acknowledges messages. A lost acknowledgement is harmless: the message comes again and is below `done` then. */
  acknowledge (messages: readonly LaneMessage[]): void {
    for (const message of messages) this.#connection.publish(message.ackSubject)
    this.#unacknowledged -= messages.length
  }

  /** Resolves when something arrived, the reader failed, the time is over, or the signal fired. Never rejects. */
  async waitForMore (timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (this.failure !== null || signal.aborted || timeoutMs <= 0) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#wake = null
        resolve()
      }
      const timer = setTimeout(done, timeoutMs)
      signal.addEventListener('abort', done)
      this.#wake = done
    })
  }

  /**
   * Asks the server how much is pending, and compares what it handed out with what arrived here: a delivery lost
   * without a later one leaves no gap to see.
   */
  async readPending (): Promise<LanePending> {
    const expected = this.#nextDelivery - 1
    const name = writerConsumer(this.lane.eventClass, this.lane.number)
    const info = await this.#manager.consumers.info(EVENTS_STREAM, name)
    if (info.delivered.consumer_seq > expected && this.#nextDelivery - 1 === expected && this.failure === null) {
      // Deliveries may be on their way; only when nothing moved between two questions they are lost.
      if (this.#suspectedAt === expected) this.fail(`${info.delivered.consumer_seq - expected} deliveries never arrived`)
      this.#suspectedAt = expected
    } else {
      this.#suspectedAt = -1
    }
    return { messages: info.num_pending + this.#unacknowledged, lastSequence: info.delivered.stream_seq }
  }

  #suspectedAt = -1

  #receive (message: Msg): void {
    this.#lastSignAt = performance.now()
    // Deliveries keep the subject of the stream; what the server says about a pull comes to the inbox itself.
    if (message.subject.startsWith(this.#inbox)) {
      this.#receiveStatus(message)
      return
    }
    const read = readLaneMessage(message)
    if (read.delivery !== this.#nextDelivery) {
      this.fail(`delivery ${read.delivery} instead of ${this.#nextDelivery}`)
      return
    }
    this.#nextDelivery++
    this.#pullLeft--
    this.#pullGotAny = true
    // Handed out again after the very long ack wait: this reader holds it, or settled it.
    if (read.sequence > this.#lastSequence) {
      this.#lastSequence = read.sequence
      this.#unacknowledged++
      this.buffer.push(read)
      this.bufferedBytes += read.payload.length
    }
    if (this.#pullLeft === 0) this.#endPull()
    this.#wakeUp()
  }

  #receiveStatus (message: Msg): void {
    const code = message.headers?.code ?? 0
    const text = message.headers?.description ?? ''
    if (code === 100 || message.subject !== `${this.#inbox}.${this.#pull}`) return
    if (code === 408 || code === 404) {
      this.#endPull()
    } else if (code === 409 && /maxbytes|batch completed/i.test(text)) {
      // A single message may be larger than the usual pull; ask for it alone.
      if (!this.#pullGotAny && /maxbytes/i.test(text)) this.#pullBytes = LARGEST_PULL_BYTES
      this.#endPull()
    } else {
      this.fail(`${code} ${text}`)
    }
  }

  #endPull (): void {
    this.#pullLeft = 0
    this.#requestMore()
  }

  /** One pull at a time, and none while the buffer is full: this bounds the memory of the lane. */
  #requestMore (): void {
    if (this.failure !== null || this.#pullLeft > 0) return
    if (this.bufferedBytes >= this.#maxBytes || this.buffer.length >= PULL_MESSAGES * 10) return
    this.#pull++
    this.#pullLeft = PULL_MESSAGES
    this.#pullGotAny = false
    this.#lastSignAt = performance.now()
    const name = writerConsumer(this.lane.eventClass, this.lane.number)
    this.#connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${EVENTS_STREAM}.${name}`, JSON.stringify({
      batch: PULL_MESSAGES,
      max_bytes: this.#pullBytes,
      expires: PULL_EXPIRES_MS * 1e6,
      idle_heartbeat: HEARTBEAT_MS * 1e6
    }), { reply: `${this.#inbox}.${this.#pull}` })
    this.#pullBytes = this.#maxBytes
  }

  #watch (): void {
    if (this.#pullLeft > 0 && performance.now() - this.#lastSignAt > 3 * HEARTBEAT_MS) this.fail('no heartbeat')
  }

  #wakeUp (): void {
    this.#wake?.()
  }
}

/**
 * Opens the reader of a lane.
 *
 * @param options.maxBytes  Compressed bytes that may wait in memory, plus one pull of the same size.
 * @throws when JetStream does not answer or the stream is missing.
 */
export async function openLaneReader (
  connection: NatsConnection, lane: Lane, options: { maxBytes: number }
): Promise<LaneReader> {
  const reader = new LaneReader(lane, connection, await jetstreamManager(connection), options.maxBytes)
  await reader.open()
  return reader
}
