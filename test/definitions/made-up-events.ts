import { createRandom, type ModelProperty, type Random } from '../../api/testing/property-model.ts'

export const EVENT_NAMES = 300
export const PROPERTIES = 2000
const GROUP_TYPES = ['company', 'team']
const SHAPES_PER_EVENT = 3
const PROPERTIES_PER_SHAPE = 7
const DAY_MS = 86_400_000

/** What is known about an event name from the events made so far. */
interface KnownEvent {
  /** During the last 30 days. */
  volume: number
  /** Epoch milliseconds. */
  lastSeen: number
}

export interface KnownProperty {
  property: MadeUpProperty
  /** Values by their type. */
  counts: Map<CountedType, number>
}

/** Makes events, and knows what they come to. */
export interface EventSource {
  /** Makes the next events, as a client sends them. */
  make: (count: number) => object[]
  events: Map<string, KnownEvent>
  properties: Map<string, KnownProperty>
  seenOn: Map<string, Set<string>>
}

/**
 * A seeded source of events of 300 names and 2,000 properties of events, persons and groups. Every name and property
 * occurs among the first thousand events.
 *
 * @param now  Epoch milliseconds. Events are up to 40 days old, but for the days around the limit of 30, so that a
 *   test may run at midnight.
 */
export function createEventSource (seed: number, now: number): EventSource {
  const random = createRandom(seed)
  const names = Array.from({ length: EVENT_NAMES }, (_, index) => nameOf(index))
  const ofPersons = makeUpProperties(200, 'person')
  const ofGroups = [...makeUpProperties(60, 'group', 'company'), ...makeUpProperties(40, 'group', 'team')]
  const ofEvents = makeUpProperties(PROPERTIES - ofPersons.length - ofGroups.length, 'event')
  const source: EventSource = { make, events: new Map(), properties: new Map(), seenOn: new Map() }
  let made = 0
  return source

  function make (count: number): object[] {
    return Array.from({ length: count }, () => makeOne(made++))
  }

  function makeOne (index: number): object {
    const time = now - ageOf(random.next(), random.next())
    const common = {
      uuid: `00000000-0000-4000-8000-${index.toString(16).padStart(12, '0')}`,
      distinct_id: `person ${index % 300}`,
      timestamp: new Date(time).toISOString()
    }
    // A hundredth is about persons and groups: those are not measured here.
    if (index % 100 === 0) return { ...common, ...identify(index / 100, time) }
    if (index % 100 === 50) return { ...common, ...identifyGroup((index - 50) / 100, time) }
    // First every shape once, then few names often and many names seldom, as it is.
    const shapes = (EVENT_NAMES - 2) * SHAPES_PER_EVENT
    const shape = index < 1000 ? index % shapes : Math.floor(random.next() ** 2 * shapes)
    const event = names[2 + Math.floor(shape / SHAPES_PER_EVENT)] as string
    return { ...common, event, properties: takeNext(ofEvents, shape, recordEvent(event, time)) }
  }

  function identify (turn: number, time: number): object {
    const seen = recordEvent(names[0] as string, time)
    const values = takeNext(ofPersons, turn, seen)
    return turn % 2 === 0
      ? { event: names[0], $set: values, properties: {} }
      : { event: names[0], properties: { $set_once: values } }
  }

  function identifyGroup (turn: number, time: number): object {
    const seen = recordEvent(names[1] as string, time)
    const type = GROUP_TYPES[turn % 2] as string
    const fitting = ofGroups.filter(({ groupType }) => groupType === type)
    const properties = { $group_type: type, $group_key: `key ${turn % 50}`, $group_set: takeNext(fitting, turn >> 1, seen) }
    return { event: names[1], properties }
  }

  /** The next properties of a list, wherever the turn begins. */
  function takeNext (list: readonly MadeUpProperty[], turn: number, seen: Set<string>): Record<string, unknown> {
    const values: Record<string, unknown> = {}
    for (let at = 0; at < PROPERTIES_PER_SHAPE; at++) {
      const property = list[(turn * PROPERTIES_PER_SHAPE + at) % list.length] as MadeUpProperty
      const { counts } = knownProperty(property)
      const [value, type] = property.value([...counts.values()].reduce((sum, occurrences) => sum + occurrences, 0))
      counts.set(type, (counts.get(type) ?? 0) + 1)
      values[property.name] = value
      if (property.type === 'event') seen.add(property.name)
    }
    return values
  }

  function knownProperty (property: MadeUpProperty): KnownProperty {
    const key = keyOf({ type: property.type, group_type: property.groupType, name: property.name })
    let known = source.properties.get(key)
    if (known === undefined) source.properties.set(key, known = { property, counts: new Map() })
    return known
  }

  /** @returns the properties seen on the event. */
  function recordEvent (event: string, time: number): Set<string> {
    const known = source.events.get(event) ?? { volume: 0, lastSeen: 0 }
    source.events.set(event, known)
    known.lastSeen = Math.max(known.lastSeen, time)
    if (time > now - 30 * DAY_MS) known.volume++
    const seen = source.seenOn.get(event) ?? new Set()
    source.seenOn.set(event, seen)
    return seen
  }
}

function nameOf (index: number): string {
  if (index === 0) return '$identify'
  if (index === 1) return '$groupidentify'
  const prefix = ['order paid', '$page', 'a%b_c', 'b.*(', "it's", 'Größe 🎉', 'list, of', 'UPPER lower'][index % 8]
  return `${prefix} ${index}`
}

/** An age in milliseconds: most are of the last 28 days, a fifth is 32 to 40 days old. */
function ageOf (first: number, second: number): number {
  return Math.floor(first < 0.8 ? second * 28 * DAY_MS : (32 + second * 8) * DAY_MS)
}

export function keyOf ({ type, group_type: groupType, name }: Pick<ModelProperty, 'type' | 'group_type' | 'name'>): string {
  return JSON.stringify([type, groupType, name])
}

/** The type that most values had; null when none had any. */
export function typeOf ({ counts }: KnownProperty): Exclude<CountedType, null> | null {
  const ranked = [...counts].filter(([type]) => type !== null).sort(([, a], [, b]) => b - a)
  return ranked[0]?.[0] ?? null
}

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

/** A type, as counted; null for what has none. */
type CountedType = 'String' | 'Numeric' | 'Boolean' | 'DateTime' | null

/** A property and its values, each with the type that docs/reference/contract/sdks.md 3.2 gives it. */
interface MadeUpProperty {
  name: string
  type: ModelProperty['type']
  groupType: string
  /** The value of its nth occurrence. */
  value: (occurrence: number) => [value: unknown, type: CountedType]
}

/** Seconds since 1970, as clients write times that must count as such: not older than half a year. */
const NOW_SECONDS = Math.floor(Date.now() / 1000)

/** How many of its first values a healed property has of the wrong type. */
const WRONG_AT_FIRST = 5

type Kind = [name: string, value: MadeUpProperty['value']]

/** One of each rule; the names are numbered. */
const KINDS: readonly Kind[] = [
  ['count', (n) => [n, 'Numeric']],
  ['share of', (n) => [n / 7, 'Numeric']],
  ['label', (n) => [`v${n % 9}`, 'String']],
  ['number as text', (n) => [String(n), 'String']],
  ['is on', (n) => [n % 2 === 0, 'Boolean']],
  ['answer', (n) => [n % 2 === 0 ? ' false' : 'TRUE', 'Boolean']],
  ['day', () => ['2026-01-31', 'DateTime']],
  ['moment', () => ['Fri, 30 Jan 2026 10:20:30 +0000', 'DateTime']],
  ['seen_at', (n) => [NOW_SECONDS - n, 'DateTime']],
  ['spent time', (n) => [n, 'Numeric']],
  ['utm_medium', (n) => [n, 'String']],
  ['$feature/flag', (n) => [n % 2 === 0, 'String']],
  ['nothing', (n) => [[null, [n], { n }][n % 3], null]],
  ['healed', (n) => n < WRONG_AT_FIRST ? ['unknown', 'String'] : [n, 'Numeric']],
  ['mostly text', (n) => n % 4 === 3 ? [n, 'Numeric'] : [`t${n}`, 'String']],
  ['100%_of "it\'s" (a.*b, c)', (n) => [n, 'Numeric']],
  ['Größe 🎉', (n) => [`${n} m`, 'String']]
]

/** Makes as many properties as asked for, of every kind in turn. */
function makeUpProperties (
  count: number, type: MadeUpProperty['type'], groupType = ''
): MadeUpProperty[] {
  return Array.from({ length: count }, (_, index) => {
    const [name, value] = KINDS[index % KINDS.length] as Kind
    return { name: `${name} ${Math.floor(index / KINDS.length)}`, type, groupType, value }
  })
}
