import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type IntervalLoop, runAtIntervals } from '../../../platform/intervals.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { LiveEvent } from './feed-batch.ts'
import { ArrivalReader, type Watched } from './read-arrivals.ts'

/** Different watches that one process has at a time: each asks ClickHouse every second. */
const MAX_WATCHES = 20

/**
 * Watchers at a time, who mostly watch the same. Each keeps one of the 64 connections from an ingest process
 * to the API, which flags need as well.
 */
const MAX_WATCHERS = 30

/** Pause between two looks, in milliseconds: an event is stored within one second, and shown within two. */
const LOOK_EVERY_MS = 1000

export interface FeedOptions extends Watched {
  /** Takes a `FeedBatch` as JSON, which those who watch the same share. */
  send: (batch: string) => void
  /** False while the watcher does not take what it was sent: events are then counted and not kept. */
  isReading: () => boolean
}

interface SharedWatch {
  reader: ArrivalReader
  watchers: Set<Watcher>
  /** Events since it began. */
  matched: number
  /** False while ClickHouse does not answer. */
  connected: boolean
  /** The first look, from which on events are seen. */
  begun: Promise<void>
}

/** The feeds of one API process. Clients that ask for the same events share a watch; without any, nothing is read. */
export class LiveFeeds {
  readonly #clickhouse: Pick<ClickHouse, 'query'>
  readonly #logger: Pick<Logger, 'warn'>
  readonly #watches = new Map<string, SharedWatch>()
  #loop: IntervalLoop | null = null

  constructor ({ clickhouse, logger }: { clickhouse: Pick<ClickHouse, 'query'>, logger: Pick<Logger, 'warn'> }) {
    this.#clickhouse = clickhouse
    this.#logger = logger
  }

  isFullFor (wanted: Watched): boolean {
    const watchers = [...this.#watches.values()].reduce((sum, { watchers }) => sum + watchers.size, 0)
    return watchers >= MAX_WATCHERS || (!this.#watches.has(keyOf(wanted)) && this.#watches.size >= MAX_WATCHES)
  }

  /**
   * Begins a feed. Resolves when what is stored from now on is seen, or ClickHouse is known to be away.
   *
   * @returns how to end it.
   */
  async open ({ send, isReading, ...wanted }: FeedOptions): Promise<() => void> {
    const key = keyOf(wanted)
    const watch = this.#watches.get(key) ?? this.#begin(key, wanted)
    // What came before belongs to those who were there.
    const watcher = new Watcher({ send, isReading }, watch.matched)
    watch.watchers.add(watcher)
    await watch.begun
    watcher.offer({ ...watch, events: 0, eventsJson: '[]' })
    return () => {
      if (!watch.watchers.delete(watcher) || watch.watchers.size > 0) return
      this.#watches.delete(key)
      if (this.#watches.size > 0) return
      void this.#loop?.stop()
      this.#loop = null
    }
  }

  #begin (key: string, wanted: Watched): SharedWatch {
    const watch: SharedWatch = {
      reader: new ArrivalReader(this.#clickhouse, wanted),
      watchers: new Set(),
      matched: 0,
      connected: true,
      begun: Promise.resolve()
    }
    watch.begun = this.#look(watch)
    this.#watches.set(key, watch)
    this.#loop ??= runAtIntervals({
      everyMs: LOOK_EVERY_MS,
      firstAfterMs: LOOK_EVERY_MS,
      run: async () => await Promise.all([...this.#watches.values()].map(async (each) => {
        await each.begun
        await this.#look(each)
      }))
    })
    return watch
  }

  /** Sends what has come since the last time; JSON is written once for all who watch the same. */
  async #look (watch: SharedWatch): Promise<void> {
    let events: LiveEvent[] = []
    try {
      const arrivals = await watch.reader.read()
      events = arrivals.events
      watch.matched += arrivals.matched
      watch.connected = true
    } catch (err) {
      if (watch.connected) this.#logger.warn({ err }, 'live events cannot be read from ClickHouse; trying again every second')
      watch.connected = false
    }
    const part = { ...watch, events: events.length, eventsJson: JSON.stringify(events) }
    for (const watcher of watch.watchers) watcher.offer(part)
  }
}

function keyOf ({ project, event, distinctId }: Watched): string {
  return JSON.stringify([project, event, distinctId])
}

/** What came for a watch since the last time. */
interface Part extends Pick<SharedWatch, 'connected' | 'matched'> {
  events: number
  eventsJson: string
}

/** Somebody who watches, with counts from the moment in which they began. */
class Watcher {
  readonly #to: Pick<FeedOptions, 'send' | 'isReading'>
  readonly #matchedBefore: number
  #shown = 0
  #sentMatched = 0
  #wasConnected: boolean | null = null

  constructor (to: Pick<FeedOptions, 'send' | 'isReading'>, matchedBefore: number) {
    this.#to = to
    this.#matchedBefore = matchedBefore
  }

  /** Sends a part, unless it brings nothing new; while nobody reads, its events are only counted. */
  offer ({ connected, matched: all, events, eventsJson }: Part): void {
    const matched = all - this.#matchedBefore
    if (matched === this.#sentMatched && connected === this.#wasConnected && events === 0) return
    if (!this.#to.isReading()) return
    this.#shown += events
    this.#sentMatched = matched
    this.#wasConnected = connected
    const counts = JSON.stringify({ connected, matched, shown: this.#shown }).slice(0, -1)
    this.#to.send(`${counts},"events":${eventsJson}}`)
  }
}
