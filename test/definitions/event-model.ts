import { type Random } from '../../api/testing/property-model.ts'
import { type KnownEvent } from './made-up-events.ts'

export interface EventFilters {
  search: string | undefined
  eventType: string | undefined
  ordering: string | undefined
}

/** What a list of event definitions must hold, in its order and without pages. */
export function listEventsByModel (
  events: ReadonlyMap<string, KnownEvent>, { search = '', eventType, ordering = 'name' }: EventFilters
): string[] {
  const words = search.toLowerCase().split(/\s+/)
  const field = ordering.replace(/^-/, '')
  const sign = ordering.startsWith('-') ? -1 : 1
  const byName = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))
  const valueOf = (known: KnownEvent): number => field === 'volume_30_day' ? known.volume : known.lastSeen
  return [...events]
    .filter(([name]) => words.every((word) => name.toLowerCase().includes(word)))
    .filter(([name]) => eventType !== 'event_posthog' || name.startsWith('$'))
    .filter(([name]) => eventType !== 'event_custom' || !name.startsWith('$'))
    .sort(([a, known], [b, other]) => field === 'name'
      ? sign * byName(a, b)
      : sign * (valueOf(known) - valueOf(other)) || byName(a, b))
    .map(([name]) => name)
}

export function randomEventFilters (random: Random, searches: readonly string[]): EventFilters {
  return {
    search: random.pick([undefined, ...searches]),
    eventType: random.pick([undefined, 'all', 'event', 'event_custom', 'event_posthog']),
    ordering: random.pick([undefined, 'name', '-name', 'volume_30_day', '-volume_30_day', 'last_seen_at', '-last_seen_at'])
  }
}
