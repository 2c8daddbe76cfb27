import { fieldsOf, isFields } from '../../../engines/fields.ts'
import type { ArrivedEvent, Fate } from '../../../schema/wire/live-feed.ts'
import type { Schema } from '../../../schema/api-types.ts'
import { formatMs } from '../format.ts'

export type FeedBatch = Schema<'FeedBatch'>

/** What became of an event, as far as the feed told: `unknown` when the feed ended before it did. */
export type ShownFate = Fate | 'waiting' | 'dropped' | 'unknown'

export interface LiveEvent extends Omit<ArrivedEvent, 'fingerprint'> {
  id: string
  fate: ShownFate
  /** Epoch milliseconds; null until its fate is known. */
  fateAt: number | null
  /** Read from `sent` when somebody asks for a property; null when it cannot be read. */
  properties?: Record<string, unknown> | null
}

/** Which events the screen shows, of those that the server sends. Empty: all. */
export interface LiveFilter {
  key: string
  /** Part of the name or version of the SDK. */
  lib: string
  fate: string
  property: string
  operator: string
  value: string
}

/** Events that the page keeps: the oldest are forgotten. */
export const KEPT_EVENTS = 2000

/** Events in the order of arrival, and what became of them; bounded, whatever comes. */
export class LiveLog {
  /** How many were ever added. */
  added = 0
  #events: LiveEvent[] = []
  #byNumber = new Map<number, LiveEvent>()
  #feeds = 0

  /** Newest last. */
  get events (): readonly LiveEvent[] {
    return this.#events
  }

  /** A feed begins, perhaps after another: its numbers begin again, and what waits is not followed any more. */
  beginFeed (): void {
    this.#feeds++
    for (const event of this.#byNumber.values()) {
      if (event.fate === 'waiting') event.fate = 'unknown'
    }
    this.#byNumber.clear()
  }

  /** @param accepts  Whether to keep an event. */
  add (batch: Pick<FeedBatch, 'events' | 'fates'>, accepts: (event: LiveEvent) => boolean): void {
    const { events, fates } = batch
    for (const { number, ...event } of events) {
      const kept: LiveEvent = {
        ...event, id: `${this.#feeds}-${number}`, fate: firstFate(event), fateAt: null
      }
      if (!accepts(kept)) continue
      this.added++
      this.#events.push(kept)
      this.#byNumber.set(number, kept)
    }
    for (const { number, fate, at } of fates) {
      const event = this.#byNumber.get(number)
      if (event !== undefined) Object.assign(event, { fate, fateAt: at })
    }
    if (this.#events.length > KEPT_EVENTS) this.#events.splice(0, this.#events.length - KEPT_EVENTS)
    for (const number of this.#byNumber.keys()) {
      if (this.#byNumber.size <= KEPT_EVENTS) break
      this.#byNumber.delete(number)
    }
  }
}

/** What is known of an event before the writer tells its fate. */
function firstFate ({ drop, isQuarantined }: Pick<LiveEvent, 'drop' | 'isQuarantined'>): ShownFate {
  return drop !== null ? 'dropped' : isQuarantined ? 'dead_letter' : 'waiting'
}

/** Whether an event passes everything but the fate, which changes. */
export function acceptsEvent (event: LiveEvent, { key, lib, property, operator, value }: LiveFilter): boolean {
  if (key !== '' && !event.key.startsWith(key.slice(0, event.key.replace(/…$/, '').length))) return false
  if (lib !== '' && !`${event.lib} ${event.libVersion}`.includes(lib)) return false
  if (property === '') return true
  const properties = event.properties === undefined ? (event.properties = readProperties(event)) : event.properties
  if (properties === null) return false
  const found = Object.hasOwn(properties, property) ? toText(properties[property]) : undefined
  return operator === '!=' ? found !== value : found === value
}

/** Whether an event is shown. */
export function isShown (event: LiveEvent, filter: LiveFilter): boolean {
  return (filter.fate === '' || event.fate === filter.fate) && acceptsEvent(event, filter)
}

/** Events in Segment's form have traits where they have no properties. */
function readProperties ({ sent, sentCharacters }: LiveEvent): Record<string, unknown> | null {
  if (sentCharacters > 0) return null
  try {
    const { properties, traits } = fieldsOf(JSON.parse(sent))
    return [properties, traits].find(isFields) ?? {}
  } catch {
    return null
  }
}

function toText (value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** The fates to choose from. */
export const FATE_NAMES: Record<ShownFate, string> = {
  waiting: 'waiting',
  stored: 'stored',
  duplicate: 'duplicate',
  dropped: 'dropped',
  dead_letter: 'dead letter',
  unknown: 'not followed'
}

/** What became of an event, in a few words: `stored after 120 ms`. */
export function describeFate ({ fate, drop, isQuarantined, at, fateAt }: LiveEvent): string {
  if (fate === 'dropped') return `dropped: ${drop}`
  if (fate === 'dead_letter' && isQuarantined) return 'dead letter: schema not met'
  if (fate === 'stored' && fateAt !== null) return `stored after ${formatMs(Math.max(0, fateAt - at))}`
  return FATE_NAMES[fate]
}

/** What the feed shows of what came: `1,200 events`, `sampled: 1,000 of 50,000 events`. */
export function describeCounts ({ matched, shown }: Pick<FeedBatch, 'matched' | 'shown'>): string {
  const count = (value: number): string => new Intl.NumberFormat('en').format(value)
  if (shown < matched) return `Sampled: ${count(shown)} of ${count(matched)} events`
  return `${count(matched)} ${matched === 1 ? 'event' : 'events'}`
}

/**
 * The event as a command that sends it again.
 *
 * @param origin  Of this installation.
 */
export function toCurl ({ sent }: Pick<LiveEvent, 'sent'>, origin: string): string {
  // In single quotes a shell takes everything but the quote itself.
  const quoted = sent.replaceAll("'", String.raw`'\''`)
  return `curl '${origin}/batch/' -H 'content-type: application/json' -d '{"api_key":"<project API key>","batch":[${quoted}]}'`
}
