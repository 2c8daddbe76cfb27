import { HIDDEN_EVENT_PROPERTIES } from '../definitions/property-query.ts'

/** A property as the model knows it. */
export interface ModelProperty {
  name: string
  type: 'event' | 'person' | 'group'
  /** Empty but for properties of groups. */
  group_type: string
  property_type: string | null
}

export interface ModelFilters {
  type: ModelProperty['type']
  groupTypeIndex: number | undefined
  search: string | undefined
  properties: string[] | undefined
  excluded: string[] | undefined
  events: string[] | undefined
  mustBeSeen: boolean
  isFeatureFlag: boolean | undefined
  isNumerical: boolean | undefined
}

export interface ModelWorld {
  properties: readonly ModelProperty[]
  /** Properties by the event they were seen on. */
  seenOn: ReadonlyMap<string, ReadonlySet<string>>
  /** Group types by their index. */
  groupTypes: readonly string[]
}

export interface Random {
  next: () => number
  pick: <T>(items: readonly T[]) => T
  some: <T>(items: readonly T[], share: number) => T[]
}

/** A small generator with a seed: the same filters in every run. */
export function createRandom (seed: number): Random {
  let state = seed
  const next = (): number => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return state / 4_294_967_296
  }
  return {
    next,
    pick: (items) => items[Math.floor(next() * items.length)]!,
    some: (items, share) => items.filter(() => next() < share)
  }
}

/**
 * The rules of docs/reference/contract/sdks.md 3.3 once more, on plain arrays: what a list must answer, without pages.
 */
export function listByModel (world: ModelWorld, filters: ModelFilters): { name: string, seen: string | null }[] {
  const hidden = filters.type === 'event' ? HIDDEN_EVENT_PROPERTIES : []
  const groupType = filters.groupTypeIndex === undefined ? '' : world.groupTypes[filters.groupTypeIndex]
  const events = filters.type === 'event' ? filters.events : undefined
  const words = (filters.search ?? '').toLowerCase().split(/\s+/)
  return world.properties
    .filter((item) => item.type === filters.type && item.group_type === groupType && !hidden.includes(item.name))
    .filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)))
    .filter(({ name }) => filters.properties === undefined || filters.properties.includes(name))
    .filter(({ name }) => filters.excluded?.includes(name) !== true)
    .filter((item) => filters.isNumerical !== true || isMeasure(item))
    .filter(({ name }) => filters.isFeatureFlag === undefined || name.startsWith('$feature/') === filters.isFeatureFlag)
    .map(({ name }) => ({
      name, seen: events === undefined ? null : String(events.some((event) => world.seenOn.get(event)?.has(name)))
    }))
    .filter(({ seen }) => !filters.mustBeSeen || seen !== 'false')
    .sort((a, b) => rank(a.seen) - rank(b.seen) || Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
}

function isMeasure ({ name, property_type: type }: ModelProperty): boolean {
  return type === 'Numeric' && name !== 'timestamp' && name !== 'distinct_id'
}

function rank (seen: string | null): number {
  return seen === 'true' ? 0 : 1
}

/** The query of a request with the filters, in one of the ways a client may write it. */
export function toQuery (filters: ModelFilters, random: Random): URLSearchParams {
  const query = new URLSearchParams()
  const add = (name: string, value: unknown): void => { if (value !== undefined) query.set(name, String(value)) }
  const list = (names: string[] | undefined): string | undefined => {
    if (names === undefined) return undefined
    // Names with a comma, and sometimes others too, go as JSON.
    return names.some((name) => name.includes(',')) || random.next() < 0.5 ? JSON.stringify(names) : names.join(',')
  }
  if (filters.type !== 'event' || random.next() < 0.5) add('type', filters.type)
  add('group_type_index', filters.groupTypeIndex)
  add('search', filters.search)
  add('properties', list(filters.properties))
  add('excluded_properties', list(filters.excluded))
  add('event_names', list(filters.events))
  if (filters.mustBeSeen) add('filter_by_event_names', 'true')
  add('is_feature_flag', filters.isFeatureFlag)
  add('is_numerical', filters.isNumerical)
  return query
}

export interface FilterChoices {
  names: readonly string[]
  events: readonly string[]
  searches: readonly string[]
  /** How many group types there are. */
  groupTypes: number
  /** How many of the names a list holds, 0 to 1. */
  share: number
}

/** Random valid filters; lists of names also contain unknown ones. */
export function randomFilters (random: Random, choices: FilterChoices): ModelFilters {
  const { names, events, share } = choices
  const type = random.pick(['event', 'event', 'event', 'person', 'group'] as const)
  const filters: ModelFilters = {
    type,
    // One beyond is a group type nobody has sent.
    groupTypeIndex: type === 'group' ? Math.floor(random.next() * (choices.groupTypes + 1)) : undefined,
    search: random.pick([undefined, undefined, ...choices.searches]),
    properties: random.next() < 0.2 ? ['nobody', ...random.some(names, share)] : undefined,
    excluded: random.next() < 0.3 ? ['nobody', ...random.some(names, share)] : undefined,
    events: random.next() < 0.5 ? ['nobody', ...random.some(events, Math.min(0.5, 4 / events.length))] : undefined,
    mustBeSeen: random.next() < 0.4,
    isFeatureFlag: random.pick([undefined, undefined, true, false]),
    isNumerical: random.pick([undefined, undefined, true, false])
  }
  if (filters.events === undefined || type !== 'event') filters.mustBeSeen = false
  return filters
}
