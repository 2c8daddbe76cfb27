import type { Schema } from '../../api-types.ts'
import { formatCount, formatCounted, quote } from '../format.ts'
import { isOfRequests } from '../receipts/warning-words.ts'

export type FeedBatch = Schema<'FeedBatch'>

/** What became of an event; its receipt says more. */
export type LiveFate = typeof FATES[number]

type ListedEvent = FeedBatch['events'][number]

export interface LiveEvent extends ListedEvent {
  id: string
  fate: LiveFate
}

/** Events that the page keeps: the oldest are forgotten. */
export const KEPT_EVENTS = 2000

/** Events in the order of arrival; bounded, whatever comes. */
export class LiveLog {
  /** How many were ever added. */
  added = 0
  #events: LiveEvent[] = []

  get events (): readonly LiveEvent[] {
    return this.#events
  }

  add (events: readonly ListedEvent[], accepts: (event: LiveEvent) => boolean): void {
    for (const event of events) {
      const kept: LiveEvent = { ...event, id: String(this.added), fate: fateOf(event) }
      if (!accepts(kept)) continue
      this.added++
      this.#events.push(kept)
    }
    if (this.#events.length > KEPT_EVENTS) this.#events.splice(0, this.#events.length - KEPT_EVENTS)
  }
}

export const FATES = ['accepted', 'dropped', 'quarantined', 'refused'] as const

function fateOf ({ drop, isQuarantined }: ListedEvent): LiveFate {
  if (drop === null) return isQuarantined ? 'quarantined' : 'accepted'
  return isOfRequests(drop) ? 'refused' : 'dropped'
}

/** What became of an event, in a few words. */
export function describeFate ({ fate, drop }: LiveEvent): string {
  return drop !== null ? `${fate}: ${drop}` : fate === 'quarantined' ? 'dead letter: schema not met' : 'accepted'
}

/** What the feed shows of what came: `1,200 events`, `sampled: 1,000 of 50,000 events`. */
export function describeCounts ({ matched, shown }: Pick<FeedBatch, 'matched' | 'shown'>): string {
  return shown < matched ? `Sampled: ${formatCount(shown)} of ${formatCount(matched)} events` : formatCounted(matched, 'event')
}

/** The event as a command that sends it again. @param origin  Of this installation. */
export function toCurl ({ sent }: Pick<LiveEvent, 'sent'>, origin: string): string {
  return `curl '${origin}/batch/' -H 'content-type: application/json' -d ${quote(`{"api_key":"<project API key>","batch":[${sent}]}`)}`
}
