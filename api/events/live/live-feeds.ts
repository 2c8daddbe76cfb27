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

/** What came for a watch since it began, and since the last look. */
interface Looked { connected: boolean, matched: number, events: number, eventsJson: string }

interface SharedWatch {
  offers: Set<(looked: Looked) => void>
  /** Events since it began. */
  matched: number
  /** False while ClickHouse does not answer. */
  connected: boolean
  /** The first look, from which on events are seen. */
  begun: Promise<void>
  loop: IntervalLoop
}

/** The feeds of one API process. Clients that ask for the same events share a watch; without any, nothing is read. */
export function createLiveFeeds (
  { clickhouse, logger }: { clickhouse: Pick<ClickHouse, 'query'>, logger: Pick<Logger, 'warn'> }
) {
  const watches = new Map<string, SharedWatch>()

  function begin (wanted: Watched): SharedWatch {
    const reader = new ArrivalReader(clickhouse, wanted)
    const offers: SharedWatch['offers'] = new Set()
    // JSON is written once for all who watch the same.
    const look = async (): Promise<void> => {
      let events: LiveEvent[] = []
      try {
        const arrivals = await reader.read()
        events = arrivals.events
        watch.matched += arrivals.matched
        watch.connected = true
      } catch (err) {
        if (watch.connected) logger.warn({ err }, 'live events cannot be read from ClickHouse; trying again every second')
        watch.connected = false
      }
      const { connected, matched } = watch
      const looked = { connected, matched, events: events.length, eventsJson: JSON.stringify(events) }
      for (const offer of offers) offer(looked)
    }
    const begun = Promise.resolve().then(look)
    const loop = runAtIntervals({
      everyMs: LOOK_EVERY_MS, firstAfterMs: LOOK_EVERY_MS, run: async () => { await begun.then(look) }
    })
    const watch: SharedWatch = { offers, matched: 0, connected: true, begun, loop }
    return watch
  }

  return {
    isFullFor (wanted: Watched): boolean {
      const watchers = [...watches.values()].reduce((sum, { offers }) => sum + offers.size, 0)
      return watchers >= MAX_WATCHERS || (!watches.has(keyOf(wanted)) && watches.size >= MAX_WATCHES)
    },
    /**
     * Begins a feed. Resolves when what is stored from now on is seen, or ClickHouse is known to be away.
     *
     * @returns how to end it.
     */
    async open ({ send, isReading, ...wanted }: FeedOptions): Promise<() => void> {
      const key = keyOf(wanted)
      const watch = watches.get(key) ?? begin(wanted)
      watches.set(key, watch)
      const offer = createOffer({ send, isReading }, watch.matched)
      watch.offers.add(offer)
      await watch.begun
      offer({ connected: watch.connected, matched: watch.matched, events: 0, eventsJson: '[]' })
      return () => {
        if (!watch.offers.delete(offer) || watch.offers.size > 0) return
        watches.delete(key)
        void watch.loop.stop()
      }
    }
  }
}

function keyOf ({ project, event, distinctId }: Watched): string {
  return JSON.stringify([project, event, distinctId])
}

/**
 * Returns what sends to one watcher, unless a look brings nothing new; while nobody reads, its events are only counted.
 *
 * @param before  Events that came before it began, and belong to those who were there.
 */
function createOffer ({ send, isReading }: Pick<FeedOptions, 'send' | 'isReading'>, before: number) {
  let [shown, sentMatched] = [0, 0]
  let wasConnected: boolean | null = null
  return ({ connected, matched: all, events, eventsJson }: Looked): void => {
    const matched = all - before
    if (matched === sentMatched && connected === wasConnected && events === 0) return
    if (!isReading()) return
    shown += events
    sentMatched = matched
    wasConnected = connected
    const counts = JSON.stringify({ connected, matched, shown }).slice(0, -1)
    send(`${counts},"events":${eventsJson}}`)
  }
}
