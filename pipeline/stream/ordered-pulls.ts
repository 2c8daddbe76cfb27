/** Reads a durable consumer of a stream, in order and without gaps: what the readers of events and of persons share. */
import { AckPolicy, DeliverPolicy, type JetStreamManager } from '@nats-io/jetstream'
import { createInbox, type Msg, type Status, type Subscription } from '@nats-io/transport-node'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { MAX_MESSAGE_BYTES } from '../../schema/wire/streams.ts'

/** How long a pull waits for messages, and how often NATS sends a heartbeat meanwhile, in milliseconds. */
const PULL_EXPIRES_MS = 30_000

const HEARTBEAT_MS = 1000

/** Tolerated missing heartbeats. A dead server, or a consumer without a leader, sends no heartbeats. */
const MISSED_HEARTBEATS = 3

/** Larger than any message with its headers: for the message that does not fit into a usual pull. */
const LARGEST_PULL_BYTES = MAX_MESSAGE_BYTES + 1_048_576

/** Code of the answer that nobody listens. */
const NO_RESPONDERS = 503

/** Initial pulls that may reach nobody, and the pause between them, ms. */
const UNHEARD_PULLS = 10

const UNHEARD_PAUSE_MS = 50

/** Where a delivered message stands. */
export interface MessagePlace {
  sequence: number
  /** When the stream stored it, epoch microseconds. */
  storedUs: number
  /** Position in the deliveries of its consumer, from 1 without gaps. */
  delivery: number
  /** Messages of the consumer behind it. */
  pending: number
  ackSubject: string
}

export interface OrderedPullsOptions {
  connection: NatsConnection
  stream: string
  /** Name of the durable consumer, which was re-created just now. */
  consumer: string
  /** What one pull may bring. */
  pull: { messages: number, bytes: number }
  /** Whether another pull fits into memory. */
  hasRoom: () => boolean
  onMessage: (message: Msg, place: MessagePlace) => void
  /**
   * Called for each message with its delay in the stream while a pull waited for it, in seconds. Compares the clock of
   * nats-server with ours.
   */
  onDelay?: (seconds: number) => void
  /** Called at most once: the reader lost its place, and delivers nothing more. */
  onLost: (why: string, cause?: unknown) => void
}

/**
 * Pulls messages from a durable consumer, one pull at a time, in order and without gaps. At the first doubt (a gap in
 * the delivery numbers, a missing heartbeat, a lost connection, a refusal) it is given up, never repaired.
 *
 * One subscription takes what all pulls bring. The `fetch` of the client has one for each, and closes it when the
 * server says that the pull is done: in a cluster that status overtakes the messages themselves, which wait for a
 * majority of the replicas, and they would be lost.
 */
export class OrderedPulls {
  /** Number of messages that arrived. */
  deliveries = 0
  readonly #options: OrderedPullsOptions
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  readonly #watchdog: NodeJS.Timeout
  readonly #status: AsyncIterable<Status> & { stop?: () => void }
  #isClosed = false
  #pull = 0
  #pullLeft = 0
  #pullGotAny = false
  #pullBytes: number
  /** When the pull under way was sent, epoch milliseconds. */
  #pulledAt = 0
  /** Beats since the last message or heartbeat. Not a time: if this process stood still, the server was not silent. */
  #silentBeats = 0
  /** First pulls that reached nobody. */
  #unheard = 0
  #wake: (() => void) | null = null

  constructor (options: OrderedPullsOptions) {
    this.#options = options
    this.#pullBytes = options.pull.bytes
    this.#subscription = options.connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => error ? this.#lose('the subscription was refused', error) : this.#receive(message)
    })
    this.#watchdog = setInterval(() => this.#watch(), HEARTBEAT_MS)
    this.#watchdog.unref()
    this.#status = options.connection.status()
    void this.#watchConnection()
    this.pullMore()
  }

  /** Pulls again if there is room; to be called when there may be. */
  pullMore (): void {
    if (this.#isClosed || this.#pullLeft > 0 || !this.#options.hasRoom()) return
    const { connection, stream, consumer, pull } = this.#options
    this.#pull++
    this.#pullLeft = pull.messages
    this.#pullGotAny = false
    this.#silentBeats = 0
    this.#pulledAt = Date.now()
    connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`, JSON.stringify({
      batch: pull.messages,
      max_bytes: this.#pullBytes,
      expires: PULL_EXPIRES_MS * 1e6,
      idle_heartbeat: HEARTBEAT_MS * 1e6
    }), { reply: `${this.#inbox}.${this.#pull}` })
    this.#pullBytes = pull.bytes
  }

  /** Resolves when something arrives from now on, it is closed, the time is over, or the signal fired. */
  async waitForMore (waitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#isClosed || signal.aborted || waitMs <= 0) return
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

  close (): void {
    this.#isClosed = true
    clearInterval(this.#watchdog)
    this.#status.stop?.()
    if (!this.#subscription.isClosed()) this.#subscription.unsubscribe()
    this.#wake?.()
  }

  #lose (why: string, cause?: unknown): void {
    if (this.#isClosed) return
    this.close()
    this.#options.onLost(why, cause)
  }

  #receive (message: Msg): void {
    if (this.#isClosed) return
    this.#silentBeats = 0
    // Deliveries keep the subject of the stream; the status of a pull comes to the inbox itself.
    if (message.subject.startsWith(this.#inbox)) return this.#receiveStatus(message)
    const place = readMessagePlace(message)
    if (place.delivery !== this.deliveries + 1) {
      this.#lose(`expected delivery ${this.deliveries + 1} but received ${place.delivery}`)
      return
    }
    this.deliveries++
    this.#pullLeft--
    this.#pullGotAny = true
    this.#options.onDelay?.(Math.max(0, Date.now() - Math.max(place.storedUs / 1000, this.#pulledAt)) / 1000)
    this.#options.onMessage(message, place)
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
    } else if (code === NO_RESPONDERS && this.deliveries === 0 && ++this.#unheard < UNHEARD_PULLS) {
      // A consumer that was made a moment ago: not every server of a cluster knows who leads it. Nobody took the pull.
      setTimeout(() => this.#endPull(), UNHEARD_PAUSE_MS).unref()
    } else if (code === 409 && /maxbytes/i.test(text)) {
      // Full from the start: the next message is larger than a usual pull.
      if (!this.#pullGotAny) this.#pullBytes = LARGEST_PULL_BYTES
      this.#endPull()
    } else {
      this.#lose(`NATS answered ${code} ${text}`)
    }
  }

  #endPull (): void {
    this.#pullLeft = 0
    this.pullMore()
  }

  /** What was sent into a dying connection counts as delivered: starting over is faster than missing a heartbeat. */
  async #watchConnection (): Promise<void> {
    for await (const { type } of this.#status) {
      if (type === 'disconnect' || type === 'close') this.#lose('the connection was lost')
    }
  }

  #watch (): void {
    if (this.#pullLeft > 0 && ++this.#silentBeats > MISSED_HEARTBEATS) this.#lose('no heartbeat came')
  }
}

/**
 * Reads where a message stands from the subject that acknowledges it:
 * `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<delivery>.<nanoseconds>.<pending>`; clusters put a domain and
 * an account hash before the stream.
 */
function readMessagePlace (message: Msg): MessagePlace {
  const ackSubject = message.reply ?? ''
  const tokens = ackSubject.split('.')
  const shift = tokens.length > 9 ? 2 : 0
  return {
    sequence: Number(tokens[5 + shift]),
    delivery: Number(tokens[6 + shift]),
    storedUs: Math.floor(Number(tokens[7 + shift]) / 1000),
    pending: Number(tokens[8 + shift]),
    ackSubject
  }
}

export interface DurableConsumer {
  stream: string
  name: string
  /** Subject whose messages it delivers. */
  subject: string
  /** After this long without an acknowledgement JetStream hands a message out again, in milliseconds. */
  ackWaitMs: number
}

/**
 * How long each try to create a consumer may take before it is deleted and created again, in milliseconds; after the
 * last one the request has its usual time.
 */
const CREATE_TRIES_MS = [400, 800]

/**
 * Deletes a durable consumer and creates it again: it delivers from the first message that nobody acknowledged, in
 * order, and the reader of the old one receives nothing more.
 *
 * A cluster names one of the servers of the stream, by chance, to lead a new consumer, also one that died a moment ago:
 * then nobody answers until the others have elected a leader, 4 to 9 s later. Another try names another one.
 */
export async function recreateConsumer (
  manager: JetStreamManager, { stream, name, subject, ackWaitMs }: DurableConsumer
): Promise<void> {
  for (const waitMs of [...CREATE_TRIES_MS, Infinity]) {
    // Absent on the first start, which is fine. A consumer whose leader died is deleted without an answer.
    await isOver(manager.consumers.delete(stream, name).catch(() => {}), waitMs)
    const created = manager.consumers.add(stream, {
      durable_name: name,
      filter_subject: subject,
      deliver_policy: DeliverPolicy.All,
      ack_policy: AckPolicy.Explicit,
      ack_wait: ackWaitMs * 1e6,
      max_ack_pending: -1,
      max_deliver: -1
    })
    if (await isOver(created, waitMs)) return
    // The one that is given up fails later, or not.
    created.catch(() => {})
  }
}

/** Whether the work is done within a time. @throws what the work throws within it. */
async function isOver (work: Promise<unknown>, withinMs: number): Promise<boolean> {
  if (withinMs === Infinity) {
    await work
    return true
  }
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), withinMs)
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}
