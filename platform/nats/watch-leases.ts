import type { NatsConnection } from '@nats-io/transport-node'
import { readWatchNotice, type Watch, WATCH_SUBJECT } from '../../schema/wire/live-feed.ts'

/** Watches that one process serves at a time; further ones see nothing. */
const MAX_WATCHES = 64

/** Longest lease, in milliseconds: so long after its last word a watcher that vanished is served at most. */
export const MAX_LEASE_MS = 10_000

/**
 * Who watches the live feed, as far as this process was told. A watch lives on its lease: a watcher that vanished, or
 * a lost connection, ends it within seconds, and with it whatever this process collects for it.
 */
export class WatchLeases {
  /** Whether anybody watches: all that the life of an event asks while nobody does. */
  isAnyone = false
  readonly #onChange: (watches: readonly Watch[]) => void
  readonly #leases = new Map<string, { watch: Watch, timer: NodeJS.Timeout }>()

  /** @param onChange  Told which watches there are whenever one began or ended. */
  constructor (onChange: (watches: readonly Watch[]) => void = () => {}) {
    this.#onChange = onChange
  }

  /** Hears of watchers on a connection, for as long as it is open. */
  listen (connection: NatsConnection): void {
    connection.subscribe(WATCH_SUBJECT, {
      callback: (error, message) => {
        if (error === null) this.hear(message.data)
      }
    })
    void this.#endWithConnection(connection)
  }

  /** Takes a notice: `schema/wire/live-feed.ts`. What is none is ignored. */
  hear (data: Uint8Array): void {
    const notice = parse(data)
    if (notice === null) return
    const { leaseMs, ...watch } = notice
    const known = this.#leases.get(watch.id)
    clearTimeout(known?.timer)
    if (leaseMs <= 0) {
      if (known !== undefined) this.#end(watch.id)
      return
    }
    if (known === undefined && this.#leases.size >= MAX_WATCHES) return
    const timer = setTimeout(() => this.#end(watch.id), Math.min(leaseMs, MAX_LEASE_MS))
    // A process with nothing else to do may end.
    timer.unref()
    this.#leases.set(watch.id, { watch, timer })
    if (known === undefined) this.#changed()
  }

  /** Ends all of them. */
  clear (): void {
    for (const { timer } of this.#leases.values()) clearTimeout(timer)
    this.#leases.clear()
    this.#changed()
  }

  #end (id: string): void {
    this.#leases.delete(id)
    this.#changed()
  }

  #changed (): void {
    this.isAnyone = this.#leases.size > 0
    this.#onChange([...this.#leases.values()].map(({ watch }) => watch))
  }

  /** The client would collect in memory what is published while there is no connection. */
  async #endWithConnection (connection: NatsConnection): Promise<void> {
    for await (const { type } of connection.status()) {
      if (type === 'disconnect' || type === 'close') this.clear()
    }
  }
}

function parse (data: Uint8Array): ReturnType<typeof readWatchNotice> {
  try {
    return readWatchNotice(JSON.parse(Buffer.from(data).toString()))
  } catch {
    return null
  }
}
