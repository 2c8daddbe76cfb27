import type { Subscription } from '@nats-io/transport-node'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { type ArrivedEvent, type ArrivedEvents, arrivedSubject, type Watch, WATCH_SUBJECT, type WatchNotice } from '../../../schema/wire/live-feed.ts'
import { FateJoin, type ToldFate } from './fate-join.ts'

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

/** Fates that are kept between two batches: far more than events are shown. */
const MAX_FATES = 5000

/** What arrives for one watch, and what becomes of it, for all who watch the same. */
export class SharedWatch {
  /** Events that were asked for, since the watch began. */
  matched = 0
  readonly #connection: NatsConnection
  readonly #watch: Watch
  readonly #subscription: Subscription
  readonly #join = new FateJoin()
  /** Last count of each process of ingest. */
  readonly #counts = new Map<string, number>()
  #number = 0
  #events: FeedBatch['events'] = []
  #fates: ToldFate[] = []

  constructor (connection: NatsConnection, watch: Watch) {
    this.#connection = connection
    this.#watch = watch
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
      // A closed connection: its end was noticed, and the watchers are told.
    }
  }

  tell (...fates: Parameters<FateJoin['tell']>): void {
    this.#fates.push(...this.#join.tell(...fates))
    if (this.#fates.length > MAX_FATES) this.#fates.splice(0, this.#fates.length - MAX_FATES)
  }

  /** Takes what has come since the last time. @param now  Epoch milliseconds. */
  take (now: number): Pick<FeedBatch, 'events' | 'fates'> {
    this.#fates.push(...this.#join.turn(now))
    const taken = { events: this.#events, fates: this.#fates }
    this.#events = []
    this.#fates = []
    return taken
  }

  close (connected: boolean): void {
    this.#subscription.unsubscribe()
    if (connected) this.renew(0)
  }

  #arrive ({ from, matched, events }: ArrivedEvents): void {
    // A count below the last one begins again: the process had forgotten the watch.
    const last = this.#counts.get(from) ?? 0
    this.matched += matched >= last ? matched - last : matched
    this.#counts.set(from, matched)
    for (const { fingerprint, ...event } of events) {
      const number = this.#number++
      this.#events.push({ ...event, number })
      const told = fingerprint === '' ? null : this.#join.expect(number, fingerprint)
      if (told !== null) this.#fates.push(told)
    }
  }
}
