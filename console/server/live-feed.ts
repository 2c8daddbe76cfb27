import { nuid, type Subscription } from '@nats-io/transport-node'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { MAX_LEASE_MS } from '../../platform/nats/watch-leases.ts'
import {
  type ArrivedEvent, type ArrivedEvents, arrivedSubject, decodeFates, FATES_SUBJECT, type Watch, WATCH_SUBJECT,
  type WatchNotice
} from '../../schema/live-feed.ts'
import { FateJoin, keysOf, type ToldFate } from './fate-join.ts'

/** Feeds that one process serves at a time: each costs it a look at every row that is stored. */
const MAX_FEEDS = 10

/** A watch that is not renewed ends after this long, in milliseconds; it is renewed three times as often. */
const LEASE_MS = MAX_LEASE_MS * 0.6
const RENEW_EVERY_MS = LEASE_MS / 3

/** Between two batches to a watcher, in milliseconds: often enough to look immediate. */
const BATCH_EVERY_MS = 100

/** Fates that wait for a watcher that does not read. */
const MAX_TOLD = 5000

/** What a watcher gets at a time. */
export interface FeedBatch {
  /** False while NATS is away: nothing can be seen then. */
  connected: boolean
  /** Events that arrived and were asked for, since the feed began. */
  matched: number
  /** Those of them that were sent to the watcher. */
  shown: number
  events: (Omit<ArrivedEvent, 'fingerprint'> & { number: number })[]
  fates: ToldFate[]
}

export interface FeedOptions extends Omit<Watch, 'id'> {
  send: (batch: FeedBatch) => void
  /** False while the watcher does not take what it was sent: events are then counted and not kept. */
  isReading: () => boolean
}

/** The feeds of one API process. They share a connection, and each has a watch of its own. */
export class LiveFeeds {
  readonly #connect: () => Promise<NatsConnection>
  readonly #now: () => number
  readonly #feeds = new Set<Feed>()
  #connection: NatsConnection | null = null
  #isConnected = false
  #fates: Subscription | null = null
  #timers: NodeJS.Timeout[] = []

  constructor ({ connect, now }: { connect: () => Promise<NatsConnection>, now: () => number }) {
    this.#connect = connect
    this.#now = now
  }

  get isFull (): boolean {
    return this.#feeds.size >= MAX_FEEDS
  }

  /**
   * Begins a feed.
   *
   * @returns how to end it.
   * @throws when NATS cannot be reached.
   */
  async open ({ send, isReading, ...wanted }: FeedOptions): Promise<() => void> {
    const connection = await this.#connect()
    if (connection !== this.#connection) this.#use(connection)
    const feed = new Feed(connection, { ...wanted, id: nuid.next() }, { send, isReading })
    this.#feeds.add(feed)
    if (this.#feeds.size === 1) this.#begin(connection)
    feed.renew(LEASE_MS)
    return () => {
      if (!this.#feeds.delete(feed)) return
      feed.close(this.#isConnected)
      if (this.#feeds.size === 0) this.#end()
    }
  }

  #use (connection: NatsConnection): void {
    this.#connection = connection
    this.#isConnected = true
    void this.#follow(connection)
  }

  /** A process that was told of a watch forgot it when the connection was lost. */
  async #follow (connection: NatsConnection): Promise<void> {
    for await (const { type } of connection.status()) {
      if (type !== 'disconnect' && type !== 'reconnect' && type !== 'close') continue
      this.#isConnected = type === 'reconnect'
      if (this.#isConnected) for (const feed of this.#feeds) feed.renew(LEASE_MS)
    }
  }

  #begin (connection: NatsConnection): void {
    this.#fates = connection.subscribe(FATES_SUBJECT, {
      callback: (error, message) => {
        const fates = error === null ? decodeFates(message.data) : null
        if (fates === null) return
        const keys = keysOf(fates)
        for (const feed of this.#feeds) feed.tell(fates, keys, this.#now())
      }
    })
    this.#timers = [
      setInterval(() => {
        if (this.#isConnected) for (const feed of this.#feeds) feed.renew(LEASE_MS)
      }, RENEW_EVERY_MS),
      setInterval(() => { for (const feed of this.#feeds) feed.flush(this.#isConnected, this.#now()) }, BATCH_EVERY_MS)
    ]
  }

  #end (): void {
    this.#fates?.unsubscribe()
    this.#fates = null
    for (const timer of this.#timers) clearInterval(timer)
  }
}

/** One watcher: what arrives for it, and what becomes of it. */
class Feed {
  readonly #connection: NatsConnection
  readonly #watch: Watch
  readonly #watcher: Pick<FeedOptions, 'send' | 'isReading'>
  readonly #subscription: Subscription
  readonly #join = new FateJoin()
  /** Last count of each process of ingest. */
  readonly #counts = new Map<string, number>()
  #matched = 0
  #shown = 0
  #told = 0
  #number = 0
  #events: FeedBatch['events'] = []
  #fates: ToldFate[] = []
  #wasConnected: boolean | null = null

  constructor (connection: NatsConnection, watch: Watch, watcher: Pick<FeedOptions, 'send' | 'isReading'>) {
    this.#connection = connection
    this.#watch = watch
    this.#watcher = watcher
    this.#subscription = connection.subscribe(arrivedSubject(watch.id), {
      callback: (error, message) => { if (error === null) this.#arrive(message.json<ArrivedEvents>()) }
    })
  }

  /** Says that the watch goes on for so long; 0 ends it. */
  renew (leaseMs: number): void {
    const notice: WatchNotice = { ...this.#watch, leaseMs }
    try {
      this.#connection.publish(WATCH_SUBJECT, JSON.stringify(notice))
    } catch {
      // A closed connection: its end was noticed, and the watcher is told.
    }
  }

  tell (...fates: Parameters<FateJoin['tell']>): void {
    this.#fates.push(...this.#join.tell(...fates))
    if (this.#fates.length > MAX_TOLD) this.#fates.splice(0, this.#fates.length - MAX_TOLD)
  }

  /** Sends what has come since the last time. */
  flush (connected: boolean, now: number): void {
    this.#fates.push(...this.#join.turn(now))
    const isNews = this.#matched !== this.#told || this.#fates.length > 0 || connected !== this.#wasConnected
    if (!isNews || !this.#watcher.isReading()) return
    const [events, fates] = [this.#events, this.#fates]
    this.#events = []
    this.#fates = []
    this.#wasConnected = connected
    this.#told = this.#matched
    this.#watcher.send({ connected, matched: this.#matched, shown: this.#shown, events, fates })
  }

  close (connected: boolean): void {
    this.#subscription.unsubscribe()
    if (connected) this.renew(0)
  }

  #arrive ({ from, matched, events }: ArrivedEvents): void {
    // A count below the last one begins again: the process had forgotten the watch.
    const last = this.#counts.get(from) ?? 0
    this.#matched += matched >= last ? matched - last : matched
    this.#counts.set(from, matched)
    if (!this.#watcher.isReading()) return
    this.#shown += events.length
    for (const { fingerprint, ...event } of events) {
      const number = this.#number++
      this.#events.push({ ...event, number })
      const told = fingerprint === '' ? null : this.#join.expect(number, fingerprint)
      if (told !== null) this.#fates.push(told)
    }
  }
}
