import { AckPolicy, DeliverPolicy, jetstreamManager } from '@nats-io/jetstream'
import { createInbox, type Msg, type Status, type Subscription } from '@nats-io/transport-node'
import { type NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { MillraceError } from '../../../platform/errors.ts'
import { MAX_MESSAGE_BYTES, PEOPLE_STREAM, peopleConsumer, peopleSubject } from '../../../schema/streams.ts'
import { readPartitionMessage, type PartitionMessage } from './partition-message.ts'

/** How long a pull waits for messages, and how often the server says that it is still there, in milliseconds. */
const PULL_EXPIRES_MS = 20_000
const HEARTBEAT_MS = 5000

/** What one pull may bring. At most two pulls wait in memory. */
const PULL_BYTES = 4_194_304
const PULL_MESSAGES = 100

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
 *
 * One subscription takes what all pulls bring. The `fetch` of the client has one for each, and closes it when the
 * server says that the pull is done: in a cluster that word overtakes the messages themselves, which wait for a
 * majority of the replicas, and they would be delivered to nobody.
 */
export class PartitionReader {
  readonly streamCreated: string
  /** Bytes that arrived and were not taken yet. */
  waitingBytes = 0
  readonly #partition: number
  readonly #connection: NatsConnection
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  readonly #status: AsyncIterable<Status> & { stop?: () => void }
  readonly #watchdog: NodeJS.Timeout
  readonly #waiting: PartitionMessage[] = []
  #nextDelivery = 1
  #pull = 0
  #pullLeft = 0
  #pullGotAny = false
  #pullBytes = PULL_BYTES
  #lastSignAt = 0
  #failure: MillraceError | null = null
  #wake: (() => void) | null = null

  constructor (partition: number, options: { streamCreated: string, connection: NatsConnection }) {
    this.#partition = partition
    this.streamCreated = options.streamCreated
    this.#connection = options.connection
    this.#status = options.connection.status()
    void this.#watchConnection()
    this.#subscription = this.#connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => error ? this.#fail('the subscription was refused', error) : this.#receive(message)
    })
    this.#watchdog = setInterval(() => this.#watch(), HEARTBEAT_MS)
    this.#watchdog.unref()
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
  take (maxBytes: number): PartitionMessage[] {
    let bytes = 0
    let count = 0
    while (count < this.#waiting.length && (count === 0 || bytes < maxBytes)) {
      bytes += (this.#waiting[count] as PartitionMessage).data.length
      count++
    }
    this.waitingBytes -= bytes
    const taken = this.#waiting.splice(0, count)
    this.#pullMore()
    return taken
  }

  /** Acknowledges messages that were taken. A lost acknowledgement is harmless: the message comes again. */
  acknowledge (messages: readonly PartitionMessage[]): void {
    if (this.#connection.isClosed()) return
    for (const { ackSubject } of messages) this.#connection.publish(ackSubject)
  }

  close (): void {
    this.#fail('it was closed')
  }

  #fail (why: string, cause?: unknown): void {
    this.#failure ??= new MillraceError('PIPE_PEOPLE_READER_LOST',
      `the reader of people partition ${this.#partition} lost its place: ${why}`, { action: 'retry', cause })
    clearInterval(this.#watchdog)
    if (!this.#subscription.isClosed()) this.#subscription.unsubscribe()
    this.#status.stop?.()
    this.#wake?.()
  }

  #pullMore (): void {
    if (this.#failure !== null || this.#pullLeft > 0 || this.#waiting.length > PULL_MESSAGES) return
    if (this.waitingBytes >= PULL_BYTES) return
    this.#pull++
    this.#pullLeft = PULL_MESSAGES
    this.#pullGotAny = false
    this.#lastSignAt = performance.now()
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${PEOPLE_STREAM}.${peopleConsumer(this.#partition)}`
    this.#connection.publish(subject, JSON.stringify({
      batch: PULL_MESSAGES,
      max_bytes: this.#pullBytes,
      expires: PULL_EXPIRES_MS * 1e6,
      idle_heartbeat: HEARTBEAT_MS * 1e6
    }), { reply: `${this.#inbox}.${this.#pull}` })
    this.#pullBytes = PULL_BYTES
  }

  #receive (message: Msg): void {
    if (this.#failure !== null) return
    this.#lastSignAt = performance.now()
    // Deliveries keep the subject of the stream; what the server says about a pull comes to the inbox itself.
    if (message.subject.startsWith(this.#inbox)) return this.#receiveStatus(message)
    const read = readPartitionMessage(message)
    if (read.delivery !== this.#nextDelivery) {
      this.#fail(`delivery ${read.delivery} came instead of ${this.#nextDelivery}`)
      return
    }
    this.#nextDelivery++
    this.#pullLeft--
    this.#pullGotAny = true
    this.#waiting.push(read)
    this.waitingBytes += read.data.length
    if (this.#pullLeft <= 0) this.#endPull()
    this.#wake?.()
  }

  #receiveStatus (message: Msg): void {
    const code = message.headers?.code ?? 0
    const text = message.headers?.description ?? ''
    if (code === 100 || message.subject !== `${this.#inbox}.${this.#pull}`) return
    if (code === 408 || code === 404) {
      this.#endPull()
    } else if (code === 409 && /batch completed/i.test(text)) {
      // All its messages are here or on their way; the last of them ends the pull.
    } else if (code === 409 && /maxbytes/i.test(text)) {
      // Full from the start: the next message is larger than a usual pull.
      if (!this.#pullGotAny) this.#pullBytes = LARGEST_PULL_BYTES
      this.#endPull()
    } else {
      this.#fail(`the server says ${code} ${text}`)
    }
  }

  #endPull (): void {
    this.#pullLeft = 0
    this.#pullMore()
  }

  #watch (): void {
    if (this.#pullLeft > 0 && performance.now() - this.#lastSignAt > 3 * HEARTBEAT_MS) this.#fail('no heartbeat came')
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
  return new PartitionReader(partition, { streamCreated: created, connection })
}
