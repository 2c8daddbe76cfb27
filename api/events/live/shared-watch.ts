import type { Subscription } from '@nats-io/transport-node'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { type ArrivedEvent, type ArrivedEvents, arrivedSubject, type Watch, WATCH_SUBJECT, type WatchNotice } from '../../../schema/wire/live-feed.ts'

/** What arrives for one watch, for all who watch the same. */
export class SharedWatch {
  /** Events that were asked for, since the watch began. */
  matched = 0
  readonly #connection: NatsConnection
  readonly #watch: Watch
  readonly #subscription: Subscription
  /** Last count of each process of ingest. */
  readonly #counts = new Map<string, number>()
  #events: ArrivedEvent[] = []

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

  /** Takes what has come since the last time. */
  take (): ArrivedEvent[] {
    const taken = this.#events
    this.#events = []
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
    this.#events.push(...events)
  }
}
