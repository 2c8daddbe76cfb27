import { setTimeout as delay } from 'node:timers/promises'
import { nuid } from '@nats-io/transport-node'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { MAX_LEASE_MS } from '../../../platform/nats/watch-leases.ts'
import type { Watch } from '../../../schema/wire/live-feed.ts'
import { SharedWatch } from './shared-watch.ts'

/** Different watches that one process has at a time: ingest looks at every event for each. */
const MAX_WATCHES = 20

/**
 * Watchers at a time, most of whom watch what others watch. Each keeps one of the 64 connections from an ingest process
 * to the API, which flags need as well.
 */
const MAX_WATCHERS = 30

/** A watch that is not renewed ends after this long, in milliseconds; it is renewed three times as often. */
const LEASE_MS = MAX_LEASE_MS * 0.6
const RENEW_EVERY_MS = LEASE_MS / 3

/** So long a feed waits until NATS has its watch, in milliseconds: what is sent after it is open is to be seen. */
const TOLD_WITHIN_MS = 2000

/** Between two batches to a watcher, in milliseconds: often enough to look immediate. */
const BATCH_EVERY_MS = 100

export interface FeedOptions extends Omit<Watch, 'id'> {
  /** Takes a `FeedBatch` as JSON, which those who watch the same share. */
  send: (batch: string) => void
  /** False while the watcher does not take what it was sent: events are then counted and not kept. */
  isReading: () => boolean
}

/** The feeds of one API process. They share a connection, and those who ask for the same events share a watch. */
export class LiveFeeds {
  readonly #connect: () => Promise<NatsConnection>
  /** By what they ask for. */
  readonly #watches = new Map<string, { shared: SharedWatch, watchers: Set<Watcher> }>()
  #connection: NatsConnection | null = null
  #isConnected = false
  #timers: NodeJS.Timeout[] = []

  constructor ({ connect }: { connect: () => Promise<NatsConnection> }) {
    this.#connect = connect
  }

  /** Whether nobody else can watch this. */
  isFullFor (wanted: Omit<Watch, 'id'>): boolean {
    const watchers = [...this.#watches.values()].reduce((sum, { watchers }) => sum + watchers.size, 0)
    return watchers >= MAX_WATCHERS || (!this.#watches.has(keyOf(wanted)) && this.#watches.size >= MAX_WATCHES)
  }

  /**
   * Begins a feed; resolves when NATS was told what to watch.
   *
   * @returns how to end it.
   * @throws when NATS cannot be reached.
   */
  async open ({ send, isReading, ...wanted }: FeedOptions): Promise<() => void> {
    const connection = await this.#connect()
    if (connection !== this.#connection) this.#use(connection)
    if (this.#watches.size === 0) this.#begin()
    const key = keyOf(wanted)
    let watch = this.#watches.get(key)
    const isNew = watch === undefined
    if (watch === undefined) {
      watch = { shared: new SharedWatch(connection, { ...wanted, id: nuid.next() }), watchers: new Set() }
      this.#watches.set(key, watch)
      watch.shared.renew(LEASE_MS)
    } else {
      // What came before belongs to those who were there.
      this.#flush(watch)
    }
    const { shared, watchers } = watch
    const watcher = new Watcher({ send, isReading }, shared.matched)
    watchers.add(watcher)
    if (isNew) {
      const late = delay(TOLD_WITHIN_MS, undefined, { ref: false })
      await Promise.race([connection.flush().catch(() => {}), late])
    }
    return () => {
      if (!watchers.delete(watcher) || watchers.size > 0) return
      this.#watches.delete(key)
      shared.close(this.#isConnected)
      if (this.#watches.size === 0) this.#end()
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
      // The client tells of a reconnect once for each attempt that failed before.
      const isBack = type === 'reconnect' && !this.#isConnected
      this.#isConnected = type === 'reconnect'
      if (isBack) this.#renew()
    }
  }

  #begin (): void {
    this.#timers = [
      setInterval(() => { if (this.#isConnected) this.#renew() }, RENEW_EVERY_MS),
      setInterval(() => { for (const watch of this.#watches.values()) this.#flush(watch) }, BATCH_EVERY_MS)
    ]
  }

  #renew (): void {
    for (const { shared } of this.#watches.values()) shared.renew(LEASE_MS)
  }

  /** Sends what has come since the last time; JSON is written once for all who watch the same. */
  #flush ({ shared, watchers }: { shared: SharedWatch, watchers: Set<Watcher> }): void {
    const events = shared.take()
    const part: Part = {
      connected: this.#isConnected, matched: shared.matched, events: events.length, eventsJson: JSON.stringify(events)
    }
    for (const watcher of watchers) watcher.offer(part)
  }

  #end (): void {
    for (const timer of this.#timers) clearInterval(timer)
  }
}

function keyOf ({ project, event, distinctId }: Omit<Watch, 'id'>): string {
  return JSON.stringify([project, event, distinctId])
}

/** What came for a watch since the last time. */
interface Part {
  connected: boolean
  /** Since the watch began. */
  matched: number
  events: number
  eventsJson: string
}

/** Somebody who watches, with counts from the moment in which they began. */
class Watcher {
  readonly #to: Pick<FeedOptions, 'send' | 'isReading'>
  readonly #matchedBefore: number
  #shown = 0
  #told = 0
  #wasConnected: boolean | null = null

  constructor (to: Pick<FeedOptions, 'send' | 'isReading'>, matchedBefore: number) {
    this.#to = to
    this.#matchedBefore = matchedBefore
  }

  /** Sends a part, unless it brings nothing new; while nobody reads, its events are only counted. */
  offer ({ connected, matched: all, events, eventsJson }: Part): void {
    const matched = all - this.#matchedBefore
    if (matched === this.#told && connected === this.#wasConnected) return
    if (!this.#to.isReading()) return
    this.#shown += events
    this.#told = matched
    this.#wasConnected = connected
    const counts = JSON.stringify({ connected, matched, shown: this.#shown }).slice(0, -1)
    this.#to.send(`${counts},"events":${eventsJson}}`)
  }
}
