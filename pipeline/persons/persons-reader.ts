import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'
import { MillraceError } from '../../engines/errors.ts'
import { HEADER, PERSONS_STREAM, personsConsumer, personsSubject } from '../../schema/wire/streams.ts'
import { type MessagePlace, OrderedPulls, recreateConsumer } from '../stream/ordered-pulls.ts'

/** Limits of one pull. At most two pulls wait in memory. */
const PULL_BYTES = 4_194_304
const PULL_MESSAGES = 100

/**
 * JetStream redelivers an unacknowledged message after this long. A last resort: a lost delivery shows as a gap in the
 * delivery numbers, and the consumer is re-created at once.
 */
const ACK_WAIT_MS = 60_000

export interface PersonsReaderOptions {
  connection: NatsConnection
  /** Called for each message with its delay in the stream while a pull waited for it, in seconds. */
  onDelay?: (seconds: number) => void
}

/** A message of PERSONS as it was delivered. */
export interface DeliveredMessage extends MessagePlace {
  data: Uint8Array
  /** When what a replay brought was received, epoch milliseconds; else undefined. */
  receivedAt: number | undefined
}

/**
 * Reads one partition from its first unacknowledged message on, in order and without gaps.
 *
 * The durable consumer is re-created for each reader, so that messages which a former owner took without acknowledging
 * come again in their place. For the same reason a reader that may have missed one is closed, never repaired.
 */
export class PersonsReader {
  readonly streamCreated: string
  /** Bytes that have arrived and are not taken yet. */
  waitingBytes = 0
  readonly #partition: number
  readonly #connection: NatsConnection
  readonly #pulls: OrderedPulls
  readonly #waiting: DeliveredMessage[] = []
  #failure: MillraceError | null = null

  constructor (partition: number, options: PersonsReaderOptions & { streamCreated: string }) {
    this.#partition = partition
    this.streamCreated = options.streamCreated
    this.#connection = options.connection
    this.#pulls = new OrderedPulls({
      connection: options.connection,
      stream: PERSONS_STREAM,
      consumer: personsConsumer(partition),
      pull: { messages: PULL_MESSAGES, bytes: PULL_BYTES },
      hasRoom: () => this.#waiting.length <= PULL_MESSAGES && this.waitingBytes < PULL_BYTES,
      onMessage: ({ data, headers }, place) => {
        const received = headers?.get(HEADER.received) ?? ''
        this.#waiting.push({ data, receivedAt: received === '' ? undefined : Number(received), ...place })
        this.waitingBytes += data.length
      },
      ...(options.onDelay && { onDelay: options.onDelay }),
      onLost: (why, cause) => this.#fail(why, cause)
    })
  }

  /**
   * Resolves when a message waits, the time is over, or the signal fires.
   *
   * @throws when the reader lost its place; then open a new one.
   */
  async waitForMessages (waitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#waiting.length === 0) await this.#pulls.waitForMore(waitMs, signal)
    if (this.#waiting.length === 0 && this.#failure !== null) throw this.#failure
  }

  /** Takes messages in order until they have `maxBytes` together; at least one if any waits. */
  take (maxBytes: number): DeliveredMessage[] {
    let bytes = 0
    let count = 0
    while (count < this.#waiting.length && (count === 0 || bytes < maxBytes)) {
      bytes += (this.#waiting[count] as DeliveredMessage).data.length
      count++
    }
    this.waitingBytes -= bytes
    const taken = this.#waiting.splice(0, count)
    this.#pulls.pullMore()
    return taken
  }

  /** Acknowledges messages that were taken. A lost acknowledgement is harmless: the message comes again. */
  acknowledge (messages: readonly DeliveredMessage[]): void {
    if (this.#connection.isClosed()) return
    for (const { ackSubject } of messages) this.#connection.publish(ackSubject)
  }

  close (): void {
    this.#fail('it was closed')
  }

  #fail (why: string, cause?: unknown): void {
    this.#failure ??= new MillraceError('MILLRACE_PERSONS_READER_LOST',
      `the reader of persons partition ${this.#partition} lost its place: ${why}`, { action: 'retry', cause })
    this.#pulls.close()
  }
}

/** Opens the reader of a partition. Any earlier reader of it, in any process, receives nothing more. */
export async function openPersonsReader (partition: number, options: PersonsReaderOptions): Promise<PersonsReader> {
  const manager = await manageJetStream(options.connection)
  await recreateConsumer(manager, {
    stream: PERSONS_STREAM, name: personsConsumer(partition), subject: personsSubject(partition), ackWaitMs: ACK_WAIT_MS
  })
  const { created } = await readStreamInfo(manager, PERSONS_STREAM)
  return new PersonsReader(partition, { ...options, streamCreated: created })
}
