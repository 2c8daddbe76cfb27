import {
  AckPolicy, DeliverPolicy, jetstream, jetstreamManager, type Consumer, type ConsumerMessages,
  type JsMsg
} from '@nats-io/jetstream'
import { type Status } from '@nats-io/transport-node'
import { type NatsConnection } from '../../platform/connect-nats.ts'
import { MillraceError } from '../../platform/errors.ts'
import { MAX_MESSAGE_BYTES, PEOPLE_STREAM, peopleConsumer, peopleSubject } from '../../schema/streams.ts'

/** How long a pull waits for messages, in milliseconds. */
const PULL_EXPIRES_MS = 20_000

/** Bytes that one pull may bring (and 100 messages, by the client). At most two pulls wait in memory. */
const PULL_BYTES = 4_194_304

/** Another pull starts when no more messages than these wait. */
const PULL_AHEAD_MESSAGES = 100

/** Larger than any message with its headers: for the message that does not fit into a usual pull. */
const LARGEST_PULL_BYTES = MAX_MESSAGE_BYTES + 1_048_576

/**
 * JetStream hands a message out again after this long, in nanoseconds. Only a last resort: a lost delivery shows as a
 * gap in the delivery numbers, and then the consumer is made anew.
 */
const ACK_WAIT_NANOS = 60 * 1e9

/**
 * Reads one partition from its first unacknowledged message on, in order and without gaps.
 *
 * The durable consumer is deleted and made anew, so that what a former owner had taken without acknowledging comes
 * again, in its place. For the same reason a reader is given up, never mended, at the first doubt.
 */
export class PartitionReader {
  readonly streamCreated: string
  /** Bytes that arrived and were not taken yet. */
  waitingBytes = 0
  readonly #partition: number
  readonly #consumer: Consumer
  readonly #status: AsyncIterable<Status> & { stop?: () => void }
  readonly #waiting: JsMsg[] = []
  #nextDelivery = 1
  #pull: ConsumerMessages | null = null
  #isPulling = false
  #nextIsLarge = false
  #failure: MillraceError | null = null
  #wake: (() => void) | null = null

  constructor (partition: number, consumer: Consumer, options: { streamCreated: string, connection: NatsConnection }) {
    this.#partition = partition
    this.#consumer = consumer
    this.streamCreated = options.streamCreated
    this.#status = options.connection.status()
    void this.#watchConnection()
    this.#pullMore()
  }

  /**
   * Resolves when something arrived or waits already, the time is over, or the signal fired.
   *
   * @throws when the reader lost its place; then it has to be opened again.
   */
  async waitForMessages (waitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#waiting.length === 0 && this.#failure === null && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer)
          signal.removeEventListener('abort', done)
          this.#wake = null
          resolve()
        }
        const timer = setTimeout(done, waitMs)
        signal.addEventListener('abort', done)
        this.#wake = done
      })
    }
    if (this.#waiting.length === 0 && this.#failure !== null) throw this.#failure
  }

  /** Takes messages in order, as many as have the given bytes together, but at least one if any waits. */
  take (maxBytes: number): JsMsg[] {
    let bytes = 0
    let count = 0
    while (count < this.#waiting.length && (count === 0 || bytes < maxBytes)) {
      bytes += (this.#waiting[count] as JsMsg).data.length
      count++
    }
    this.waitingBytes -= bytes
    const taken = this.#waiting.splice(0, count)
    this.#pullMore()
    return taken
  }

  close (): void {
    this.#fail('it was closed')
  }

  #fail (why: string, cause?: unknown): void {
    this.#failure ??= new MillraceError('PIPE_PEOPLE_READER_LOST',
      `the reader of people partition ${this.#partition} lost its place: ${why}`, { action: 'retry', cause })
    this.#pull?.stop()
    this.#status.stop?.()
    this.#wake?.()
  }

  #pullMore (): void {
    if (this.#failure !== null || this.#isPulling || this.#waiting.length > PULL_AHEAD_MESSAGES) return
    if (this.waitingBytes >= PULL_BYTES) return
    this.#isPulling = true
    void this.#runPull().catch((error: unknown) => this.#fail('a pull failed', error))
  }

  async #runPull (): Promise<void> {
    let arrived = 0
    const pullBytes = this.#nextIsLarge ? LARGEST_PULL_BYTES : PULL_BYTES
    this.#nextIsLarge = false
    try {
      this.#pull = await this.#consumer.fetch({ max_bytes: pullBytes, expires: PULL_EXPIRES_MS })
      for await (const message of this.#pull) {
        arrived++
        this.#receive(message)
      }
    } catch (error) {
      if (!isPullFull(error)) throw error
      // Full from the start: the next message is larger than a usual pull.
      this.#nextIsLarge = arrived === 0
    }
    this.#isPulling = false
    this.#pullMore()
  }

  #receive (message: JsMsg): void {
    if (this.#failure !== null) return
    const { deliverySequence } = message.info
    if (deliverySequence !== this.#nextDelivery) {
      this.#fail(`delivery ${deliverySequence} came instead of ${this.#nextDelivery}`)
      return
    }
    this.#nextDelivery++
    this.#waiting.push(message)
    this.waitingBytes += message.data.length
    this.#wake?.()
  }

  /** What the server sent into a dying connection counts as delivered and would come again only much later. */
  async #watchConnection (): Promise<void> {
    for await (const { type } of this.#status) {
      if (type === 'disconnect' || type === 'close') this.#fail('the connection was lost')
    }
  }
}

/** Opens the reader of a partition, which from then on is the only one. */
export async function openPartitionReader (connection: NatsConnection, partition: number): Promise<PartitionReader> {
  const manager = await jetstreamManager(connection)
  const name = peopleConsumer(partition)
  // Absent on the first start, which is fine.
  await manager.consumers.delete(PEOPLE_STREAM, name).catch(() => {})
  await manager.consumers.add(PEOPLE_STREAM, {
    durable_name: name,
    filter_subject: peopleSubject(partition),
    deliver_policy: DeliverPolicy.All,
    ack_policy: AckPolicy.Explicit,
    ack_wait: ACK_WAIT_NANOS,
    max_ack_pending: -1,
    max_deliver: -1
  })
  const { created } = await manager.streams.info(PEOPLE_STREAM)
  const consumer = await jetstream(connection).consumers.get(PEOPLE_STREAM, name)
  return new PartitionReader(partition, consumer, { streamCreated: created, connection })
}

/** The server ended a pull early: the next message does not fit into it, or it brought as many as it may. */
function isPullFull (error: unknown): boolean {
  const { name, code, message } = error as Partial<Error> & { code?: number }
  return name === 'JetStreamStatusError' && code === 409 && /maxbytes|batch completed/i.test(message ?? '')
}
