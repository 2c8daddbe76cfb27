/** Decides one person at a time who is in a cohort, in plain loops: the oracle of the SQL. Shares no code with it. */
import { pickOne, type Random } from '../../../test/support/random.ts'
import { findOperator } from '../../operators/property-operators.ts'
import type { PlainEvent } from './plain-question.ts'
import { EVENTS, randomCondition } from './random-questions.ts'

type Json = Readonly<Record<string, any>>

export interface PlainPerson {
  id: string
  /** Null: no row is stored. */
  properties: Json | null
  events: readonly PlainEvent[]
}

export interface PlainLists {
  cohorts: ReadonlyMap<number, Json>
  lists: ReadonlyMap<number, ReadonlySet<string>>
  now: number
}

/** The members among persons with an event of no bot until now, or a row, or who are on a list in question. */
export function findMembersPlainly (filters: Json, persons: readonly PlainPerson[], world: PlainLists): string[] {
  const listed = listsOf(filters, world)
  return persons
    .map((person) => ({ ...person, events: person.events.filter(({ isBot, at }) => !isBot && at <= world.now) }))
    .filter(({ id, events, properties }) =>
      events.length > 0 || properties !== null || listed.some((list) => list.has(id)))
    .filter((person) => isMember(filters, person, world))
    .map(({ id }) => id).sort()
}

function listsOf (filter: Json, world: PlainLists): ReadonlySet<string>[] {
  const inner: Json[] = filter.properties === undefined ? filter.values ?? [] : [filter.properties]
  if (filter.type !== 'cohort') return inner.flatMap((each) => listsOf(each, world))
  const filters = world.cohorts.get(filter.value)
  return filters === undefined ? [world.lists.get(filter.value)!] : listsOf(filters, world)
}

function isMember (filter: Json, person: PlainPerson, world: PlainLists): boolean {
  if (filter.properties !== undefined) return isMember(filter.properties, person, world)
  if (filter.values !== undefined) {
    const members: Json[] = filter.values
    const isIn = (each: Json): boolean => isMember(each, person, world)
    return filter.type === 'OR' ? members.some(isIn) : members.every(isIn)
  }
  return meetsLeaf(filter, person, world) !== (filter.negation === true)
}

function meetsLeaf (leaf: Json, person: PlainPerson, world: PlainLists): boolean {
  if (leaf.type === 'cohort') {
    const filters = world.cohorts.get(leaf.value)
    const isIn = filters === undefined ? world.lists.get(leaf.value)!.has(person.id) : isMember(filters, person, world)
    return isIn === (leaf.operator !== 'not_in')
  }
  if (leaf.type === 'person') return meetsProperty(leaf, person.properties ?? {})
  const from = startOf(leaf, world.now)
  const done = person.events.filter(({ event, at, properties }) =>
    event === leaf.key && at >= from &&
    (leaf.event_filters ?? []).every((filter: Json) => meetsProperty(filter, properties))).length
  if (leaf.value === 'performed_event') return done > 0
  const times: number = leaf.operator_value
  const results: Json = {
    gte: done >= times, lte: done <= times, exact: done === times, gt: done > times, lt: done < times
  }
  return results[leaf.operator]
}

function meetsProperty ({ key, operator, value }: Json, properties: Json): boolean {
  const { test, whenAbsent } = findOperator(operator)!(value, { timezone: 'UTC', invalid: (message) => { throw new Error(message) } })
  return Object.hasOwn(properties, key) ? test(properties[key], 0) : whenAbsent
}

function startOf ({ explicit_datetime: explicit, ...leaf }: Json, now: number): number {
  const count: number = explicit === undefined ? leaf.time_value : Number(explicit.slice(1, -1))
  const unit: string = explicit === undefined ? leaf.time_interval[0] : explicit.at(-1)
  if (unit === 'h') return now - count * 3_600_000
  if (unit === 'd') return now - count * 86_400_000
  if (unit === 'w') return now - count * 7 * 86_400_000
  const end = new Date(now)
  const month = end.getUTCMonth() - count * (unit === 'y' ? 12 : 1)
  const lastDay = new Date(Date.UTC(end.getUTCFullYear(), month + 1, 0)).getUTCDate()
  return Date.UTC(end.getUTCFullYear(), month, Math.min(end.getUTCDate(), lastDay)) + now % 86_400_000
}

/** Filters as people write them. @param known  Cohorts that they may name. */
export function randomCohort (random: Random, known: readonly number[], depth = 0): Json {
  const leaf = (): Json => ({ ...randomLeaf(random, known), ...random() < 0.3 && { negation: true } })
  const values = Array.from({ length: 1 + Math.floor(random() * 3) }, () =>
    depth < 2 && random() < 0.25 ? randomCohort(random, known, depth + 1) : leaf())
  const group = { type: pickOne(['AND', 'OR'], random), values }
  return depth === 0 && random() < 0.3 ? { properties: group } : group
}

function randomLeaf (random: Random, known: readonly number[]): Json {
  const kind = random()
  if (kind < 0.15 && known.length > 0) return { type: 'cohort', key: 'id', value: pickOne(known, random), ...random() < 0.4 && { operator: pickOne(['in', 'not_in'], random) } }
  if (kind < 0.35) return { ...randomCondition(random), type: 'person' }
  const counts = random() < 0.6
  return {
    type: 'behavioral', key: pickOne(EVENTS, random), event_type: 'events', value: counts ? 'performed_event_multiple' : 'performed_event',
    ...counts && { operator: pickOne(['gte', 'lte', 'exact', 'gt', 'lt'], random), operator_value: Math.floor(random() * 5) },
    ...random() < 0.6
      ? { time_value: 1 + Math.floor(random() * 4), time_interval: pickOne(['hour', 'day', 'day', 'week', 'week', 'month', 'year'], random) }
      : { explicit_datetime: pickOne(['-12h', '-3d', '-30d', '-2w', '-1m', '-1y'], random) },
    ...random() < 0.3 && { event_filters: [{ ...randomCondition(random), type: 'event' }] }
  }
}
