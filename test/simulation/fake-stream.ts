/** A stream of JetStream in memory, as far as Millrace uses one: pull consumers, compare-and-set by subject. */
import { type MsgHdrs, headers as newHeaders } from '@nats-io/transport-node'
import type { World } from './virtual-time.ts'
import { SHORTER, WORLD_BEGAN_AT } from './world-constants.ts'

/** A message as a client sends it. */
export interface SentMessage {
  subject: string
  data: Uint8Array
  headers: MsgHdrs
}

export interface StoredMessage extends SentMessage {
  sequence: number
  /** Epoch milliseconds. */
  storedAt: number
}

export interface Delivery extends SentMessage {
  reply?: string
}

/** Of messages without any: nobody writes into it. */
export const NO_HEADERS = newHeaders()

/** Where deliveries and answers go: one connection of a client. The inbox is the subject of the subscription. */
export interface Receiver { receive: (inbox: string, message: Delivery) => void }

interface Pull {
  receiver: Receiver
  inbox: string
  left: number
  bytesLeft: number
}

interface Consumer {
  name: string
  filter: string
  /** Next sequence to look at for a first delivery. */
  next: number
  delivered: number
  /** Delivered and not acknowledged, with the position among the deliveries. */
  pending: Map<number, number>
  /** Not acknowledged in time: delivered again before others. */
  again: number[]
  ackWaitMs: number
  pulls: Pull[]
}

/** Answers with an error, in the words of the server. */
export class ApiError extends Error {
  readonly answer: Record<string, unknown>

  constructor (code: number, errCode: number, description: string) {
    super(description)
    this.answer = { error: { code, err_code: errCode, description } }
  }
}

export interface StreamOptions {
  name: string
  /** Of all its subjects. */
  prefix: string
  retention: 'workqueue' | 'limits'
  /** Only the last message of each subject stays: a bucket. */
  isBucket?: boolean
}

const DUPLICATE_WINDOW_MS = 120_000 / SHORTER

/** A dying leader may not have replicated acknowledgements younger than this, ms. */
const UNREPLICATED_MS = 1000

export class FakeStream {
  readonly options: StreamOptions
  readonly messages = new Map<number, StoredMessage>()
  readonly consumers = new Map<string, Consumer>()
  /** Called with each stored message. */
  readonly listeners = new Set<(message: StoredMessage) => void>()
  lastSequence = 0
  /** Nobody answers for it before that. */
  silentUntil = 0
  readonly #ids = new Map<string, { sequence: number, at: number }>()
  readonly #lastOf = new Map<string, number>()
  /** The last messages that were acknowledged. */
  #removed: { message: StoredMessage, at: number }[] = []
  readonly #world: World

  constructor (world: World, options: StreamOptions) {
    this.#world = world
    this.options = options
  }

  publish ({ subject, data, headers }: SentMessage): { sequence: number, isDuplicate: boolean } {
    const id = headers.get('Nats-Msg-Id')
    const known = id === '' ? undefined : this.#ids.get(id)
    if (known !== undefined && this.#world.now - known.at < DUPLICATE_WINDOW_MS) {
      return { sequence: known.sequence, isDuplicate: true }
    }
    const expected = headers.get('Nats-Expected-Last-Subject-Sequence')
    const last = this.#lastOf.get(subject) ?? 0
    if (expected !== '' && Number(expected) !== last) throw new ApiError(400, 10071, `wrong last sequence: ${last}`)
    const sequence = ++this.lastSequence
    const message = { subject, data, headers, sequence, storedAt: WORLD_BEGAN_AT + this.#world.now }
    this.messages.set(sequence, message)
    for (const tell of this.listeners) tell(message)
    if (id !== '') this.#ids.set(id, { sequence, at: this.#world.now })
    if (this.options.isBucket) this.messages.delete(last)
    this.#lastOf.set(subject, sequence)
    for (const consumer of this.consumers.values()) this.#serve(consumer)
    return { sequence, isDuplicate: false }
  }

  createConsumer (name: string, filter: string, ackWaitMs: number): void {
    if (this.consumers.has(name)) throw new ApiError(400, 10148, 'consumer already exists')
    this.consumers.set(name, {
      name, filter, next: 1, delivered: 0, pending: new Map(), again: [], ackWaitMs: ackWaitMs / SHORTER, pulls: []
    })
  }

  deleteConsumer (name: string): void {
    const consumer = this.#find(name)
    this.consumers.delete(name)
    for (const pull of [...consumer.pulls]) endPull(consumer, pull, 409, 'Consumer Deleted')
  }

  describeConsumer (name: string): Record<string, unknown> {
    const { filter, next, delivered } = this.#find(name)
    const waiting = [...this.messages.values()]
      .filter(({ sequence, subject }) => sequence >= next && subject === filter)
    return {
      stream_name: this.options.name, name, config: { filter_subject: filter }, num_pending: waiting.length,
      delivered: { consumer_seq: delivered }
    }
  }

  /** @returns false when there is no such consumer: nobody answers then. */
  pull (name: string, receiver: Receiver, inbox: string, asked: Record<string, number>): boolean {
    const consumer = this.consumers.get(name)
    if (consumer === undefined) return false
    const { batch = 1, max_bytes: bytesLeft = Infinity, expires = 0, idle_heartbeat: beat = 0 } = asked
    const pull: Pull = { receiver, inbox, left: batch, bytesLeft }
    consumer.pulls.push(pull)
    this.#serve(consumer)
    const world = this.#world
    const expiresAt = world.now + expires / 1e6
    const waitForTick = (): void => world.serve(Math.min(beat / 1e6, expiresAt - world.now), () => {
      if (!consumer.pulls.includes(pull)) return
      if (world.now >= expiresAt) return endPull(consumer, pull, 408, 'Request Timeout')
      tellStatus(receiver, inbox, 100, 'Idle Heartbeat')
      waitForTick()
    })
    waitForTick()
    return true
  }

  /** Removes a message from a work queue, if it was delivered by this consumer. */
  acknowledge (name: string, sequence: number): void {
    const consumer = this.consumers.get(name)
    if (consumer?.pending.delete(sequence) !== true && consumer?.again.includes(sequence) !== true) return
    const message = this.messages.get(sequence)
    if (this.options.retention === 'workqueue') this.messages.delete(sequence)
    if (message !== undefined) this.#removed = [...this.#removed.slice(-9), { message, at: this.#world.now }]
  }

  /**
   * The leader dies: whoever waits hears nothing more, and the next one may not know the last deliveries and
   * acknowledgements.
   */
  elect (silentMs: number): void {
    this.silentUntil = Math.max(this.silentUntil, this.#world.now + silentMs)
    for (const { message, at } of this.#removed) {
      const isYoung = this.#world.now - at < UNREPLICATED_MS
      if (isYoung && this.#world.chance(0.5)) this.messages.set(message.sequence, message)
    }
    for (const consumer of this.consumers.values()) {
      consumer.pulls = []
      const forgotten = [...consumer.pending].slice(consumer.pending.size - Math.floor(this.#world.between(0, 3)))
      const [first] = forgotten
      if (first === undefined || consumer.pending.size < forgotten.length) continue
      for (const [sequence] of forgotten) consumer.pending.delete(sequence)
      consumer.next = first[0]
      consumer.delivered = first[1] - 1
    }
  }

  /** Of a client that is gone, or does not listen any more. */
  forgetPulls (isOver: (pull: Pull) => boolean): void {
    for (const consumer of this.consumers.values()) consumer.pulls = consumer.pulls.filter((pull) => !isOver(pull))
  }

  /** @param isOfFollower  As a server says that follows nobody, and does not have the last messages. */
  describe (
    { isOfFollower = false, subjects_filter: filter }: { isOfFollower?: boolean, subjects_filter?: string }
  ): Record<string, unknown> {
    return {
      ...(isOfFollower && { cluster: { name: 'cluster', replicas: [] } }),
      config: { name: this.options.name, retention: this.options.retention, num_replicas: 1, allow_direct: false },
      created: new Date(WORLD_BEGAN_AT).toISOString(),
      state: {
        messages: this.messages.size,
        first_seq: Math.min(this.lastSequence + 1, ...this.messages.keys()),
        last_seq: isOfFollower ? Math.floor(this.lastSequence / 2) : this.lastSequence,
        ...(filter !== undefined && {
          subjects: Object.fromEntries([...Map.groupBy(this.messages.values(), ({ subject }) => subject)]
            .map(([subject, messages]) => [subject, messages.length]))
        })
      }
    }
  }

  getMessage (query: { seq?: number, last_by_subj?: string }): Record<string, unknown> {
    const { last_by_subj: asked, seq: number = this.#lastOf.get(asked ?? '') } = query
    const found = this.messages.get(number ?? 0)
    if (found === undefined) throw new ApiError(404, 10037, 'no message found')
    const { subject, sequence: seq, storedAt, data, headers } = found
    const toBase64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')
    const encoded = (headers as MsgHdrs & { encode: () => Uint8Array }).encode()
    return {
      message: {
        subject, seq, time: new Date(storedAt).toISOString(), data: toBase64(data),
        ...(headers.keys().length > 0 && { hdrs: toBase64(encoded) })
      }
    }
  }

  /** Delivers what the pulls of a consumer ask for. */
  #serve (consumer: Consumer): void {
    for (let pull = consumer.pulls[0]; pull !== undefined; pull = consumer.pulls[0]) {
      const message = this.#nextFor(consumer)
      if (message === null) return
      const bytes = message.data.length + message.subject.length + 100
      if (bytes > pull.bytesLeft) {
        endPull(consumer, pull, 409, 'Message Size Exceeds MaxBytes')
        continue
      }
      if (message.sequence === consumer.again[0]) consumer.again.shift()
      else consumer.next = message.sequence + 1
      this.#expectAcknowledgement(consumer, message.sequence, ++consumer.delivered)
      pull.left--
      pull.bytesLeft -= bytes
      const place = `1.${message.sequence}.${consumer.delivered}.${Math.round(message.storedAt * 1000)}000.0`
      pull.receiver.receive(pull.inbox, {
        subject: message.subject, data: message.data, headers: message.headers,
        reply: `$JS.ACK.${this.options.name}.${consumer.name}.${place}`
      })
      if (pull.left === 0) consumer.pulls.shift()
    }
  }

  #expectAcknowledgement (consumer: Consumer, sequence: number, delivery: number): void {
    consumer.pending.set(sequence, delivery)
    this.#world.serve(consumer.ackWaitMs, () => {
      if (this.consumers.get(consumer.name) !== consumer || consumer.pending.get(sequence) !== delivery) return
      consumer.pending.delete(sequence)
      consumer.again.push(sequence)
      this.#serve(consumer)
    })
  }

  #nextFor ({ next, filter, pending, again }: Consumer): StoredMessage | null {
    while (again[0] !== undefined && !this.messages.has(again[0])) again.shift()
    if (again[0] !== undefined) return this.messages.get(again[0]) ?? null
    for (let sequence = next; sequence <= this.lastSequence; sequence++) {
      const message = this.messages.get(sequence)
      if (message !== undefined && message.subject === filter && !pending.has(sequence)) return message
    }
    return null
  }

  #find (name: string): Consumer {
    const consumer = this.consumers.get(name)
    if (consumer === undefined) throw new ApiError(404, 10014, 'consumer not found')
    return consumer
  }
}

function endPull (consumer: Consumer, pull: Pull, code: number, description: string): void {
  consumer.pulls = consumer.pulls.filter((each) => each !== pull)
  tellStatus(pull.receiver, pull.inbox, code, description)
}

export function tellStatus (receiver: Receiver, inbox: string, code: number, description: string): void {
  receiver.receive(inbox, { subject: inbox, data: new Uint8Array(0), headers: newHeaders(code, description) })
}
