/** One connection of a simulated process to the simulated JetStream, with the network between them. */
import { Readable } from 'node:stream'
import { errors, type Msg, type MsgHdrs } from '@nats-io/transport-node'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import type { FakeJetStream } from './fake-jetstream.ts'
import { type Delivery, NO_HEADERS, type SentMessage, type StoredMessage } from './fake-stream.ts'
import type { Faults } from './scenario.ts'
import type { VirtualProcess, World } from './virtual-time.ts'

/** The class behind `headers()`, which the client does not export. */
const Headers = NO_HEADERS.constructor as unknown as { decode: (bytes: Uint8Array) => MsgHdrs, new (): MsgHdrs }

type Callback = (error: Error | null, message: Msg) => void

/** @returns an iterator over pushed values, in order. */
export function newPushed (): Readable {
  return new Readable({ objectMode: true, read: () => {} })
}

export class FakeConnection {
  readonly options = { inboxPrefix: '_INBOX' }
  readonly info = { max_payload: 67_108_864, cluster: '' }
  readonly features = { get: () => ({ ok: true, min: '2.0.0' }), supports: () => true }
  readonly #world: World
  readonly #server: FakeJetStream
  readonly #owner: VirtualProcess
  readonly #faults: Faults
  readonly #subscriptions = new Map<string, Callback>()
  readonly #listeners: Readable[] = []
  #lastUp = 0
  #lastDown = 0
  /** Counts the connections lost: what was under way belongs to an earlier one. */
  #life = 0
  #isDown = false
  #waiting: (() => void)[] = []
  #requests = 0

  constructor (world: World, server: FakeJetStream, owner: VirtualProcess, faults: Faults) {
    this.#world = world
    this.#server = server
    this.#owner = owner
    this.#faults = faults
    server.receivers.push(this)
  }

  /** As the code under test sees it. */
  asNats (): NatsConnection {
    return this as unknown as NatsConnection
  }

  publish (subject: string, data: Uint8Array | string = '', options: { reply?: string, headers?: MsgHdrs } = {}): void {
    const message = toSent(subject, data, options.headers)
    const send = (): void => this.#send(message, options.reply ?? '')
    if (this.#isDown) this.#waiting.push(send)
    else send()
  }

  async request (
    subject: string, data: Uint8Array | string = '',
    { timeout = 1000, headers }: { timeout?: number, headers?: MsgHdrs } = {}
  ): Promise<Msg> {
    const inbox = `_INBOX.request.${++this.#requests}`
    return await new Promise<Msg>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#subscriptions.delete(inbox)
        reject(new errors.TimeoutError())
      }, timeout)
      this.#subscriptions.set(inbox, (_error, message) => {
        clearTimeout(timer)
        this.#subscriptions.delete(inbox)
        resolve(message)
      })
      this.publish(subject, data, { reply: inbox, ...(headers && { headers }) })
    })
  }

  subscribe (
    subject: string, { callback }: { callback: Callback }
  ): { unsubscribe: () => void, isClosed: () => boolean } {
    const prefix = subject.replace(/\*$/, '')
    this.#subscriptions.set(prefix, callback)
    return {
      unsubscribe: () => {
        this.#subscriptions.delete(prefix)
        if (subject.startsWith('_INBOX')) {
          this.#world.serve(1, () => this.#forgetPulls((inbox) => !this.#subscriptions.has(prefixOf(inbox))))
        }
      },
      isClosed: () => !this.#subscriptions.has(prefix)
    }
  }

  status (): AsyncIterable<{ type: string }> {
    const listener = newPushed()
    this.#listeners.push(listener)
    return listener
  }

  /** A watcher first gets the existing entries, then each new one, in order. Returns a function that ends it. */
  watch (name: string, see: (message: StoredMessage, behind: number) => void): () => void {
    const { messages, listeners } = this.#server.stream(name)
    let last = 0
    const tell = (message: StoredMessage, behind = 0): void => {
      last = Math.max(last, this.#world.now + this.#world.between(1, 3))
      this.#world.after(last - this.#world.now, () => see(message, behind), this.#owner)
    }
    let behind = messages.size
    for (const message of messages.values()) tell(message, --behind)
    const listen = (message: StoredMessage): void => tell(message)
    listeners.add(listen)
    return () => listeners.delete(listen)
  }

  get isUp (): boolean { return !this.#isDown }
  isClosed (): boolean { return false }
  getServerVersion (): { major: number, minor: number, micro: number } { return { major: 2, minor: 15, micro: 1 } }
  async flush (): Promise<void> {}

  /** The connection is lost for a time, with the messages in transit; messages sent meanwhile go out afterwards. */
  disconnect (ms: number): void {
    if (this.#isDown) return
    this.#isDown = true
    this.#life++
    this.#forgetPulls(() => true)
    const tell = (type: string): void => { for (const listener of this.#listeners) listener.push({ type }) }
    this.#world.after(0, () => tell('disconnect'), this.#owner)
    this.#world.after(ms, () => {
      this.#isDown = false
      for (const send of this.#waiting.splice(0)) send()
      tell('reconnect')
    }, this.#owner)
  }

  /** From the server. */
  receive (inbox: string, { subject, data, headers, reply }: Delivery): void {
    if (this.#isDown || this.#owner.isDead || this.#callbackOf(inbox) === undefined) return
    if (this.#faults.losesDelivery()) return
    const life = this.#life
    this.#lastDown = Math.max(this.#lastDown, this.#world.now + this.#world.between(0.2, 3))
    const string = (): string => Buffer.from(data).toString()
    const respond = (answer: string): void => { if (reply !== undefined) this.publish(reply, answer) }
    // What our code reads of a message; the client has more.
    const message = { subject, data, headers, reply, string, json: () => JSON.parse(string()) as never, respond }
    this.#world.after(this.#lastDown - this.#world.now, () => {
      if (life === this.#life) this.#callbackOf(inbox)?.(null, message as unknown as Msg)
    }, this.#owner)
  }

  #callbackOf (inbox: string): Callback | undefined {
    return this.#subscriptions.get(inbox) ?? this.#subscriptions.get(prefixOf(inbox))
  }

  #forgetPulls (isOver: (inbox: string) => boolean): void {
    for (const stream of this.#server.streams.values()) {
      stream.forgetPulls(({ receiver, inbox }) => receiver === this && isOver(inbox))
    }
  }

  #send (message: SentMessage, reply: string): void {
    const stream = this.#server.streamOf(message.subject)
    const fate = this.#faults.fateOf(message, stream)
    const life = this.#life
    this.#lastUp = Math.max(this.#lastUp, this.#world.now + this.#world.between(0.2, 3))
    const late = fate === 'late' ? this.#world.between(500, 10_000) : 0
    // Names of inboxes count on from world to world.
    if (fate !== 'handled') this.#world.log(`${message.subject.replace(/^_INBOX.*/, 'answer')} ${fate}`)
    this.#world.serve(this.#lastUp - this.#world.now + late, () => {
      if (fate === 'lost' || (late === 0 && life !== this.#life && this.#world.chance(0.5))) return
      const isSilent = stream !== undefined && stream.silentUntil > this.#world.now
      if (isSilent && (!message.subject.includes('.STREAM.INFO.') || this.#world.chance(0.5))) return
      const answer = isSilent
        ? stream.describe({ isOfFollower: true })
        : this.#server.handle(message, stream, { receiver: this, reply })
      if (answer === null || reply === '' || fate === 'answer lost') return
      this.receive(reply, { subject: reply, data: Buffer.from(JSON.stringify(answer)), headers: NO_HEADERS })
    })
  }
}

function prefixOf (inbox: string): string {
  return inbox.slice(0, inbox.lastIndexOf('.') + 1)
}

function toSent (subject: string, data: Uint8Array | string, headers: MsgHdrs = NO_HEADERS): SentMessage {
  // Ingest has headers of its own, which know nothing but their bytes.
  const isOfClient = headers instanceof Headers
  return {
    subject,
    data: typeof data === 'string' ? Buffer.from(data) : data,
    headers: isOfClient ? headers : Headers.decode((headers as unknown as { encode: () => Uint8Array }).encode())
  }
}
