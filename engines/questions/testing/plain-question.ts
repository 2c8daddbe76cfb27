/** What the oracle of questions is asked, of which events, and which of them are chosen. */
import { findOperator } from '../../operators/property-operators.ts'

export interface PlainEvent {
  event: string
  /** Merges followed. */
  person: string
  /** Unix milliseconds. */
  at: number
  isBot: boolean
  weight: number
  properties: Record<string, unknown>
  groups: Record<string, string>
  /** Those of the person as it is now; none of one that was deleted, or never had any. */
  personProperties: Record<string, unknown>
  /** Those that the person is in. */
  cohorts: ReadonlySet<number>
}

interface PlainCondition { type?: string, key: string, operator: string, value?: unknown }

export interface PlainChoice { event?: string | null, where?: PlainCondition[] }

/** A definition as it is written, with every field. */
export interface PlainQuestion {
  kind: string
  range: { last?: number, unit?: string, whole?: boolean, from?: string, to?: string }
  include_bots: boolean
  week_starts: string
  interval: string
  series: (PlainChoice & { measure: string, property?: string })[]
  breakdown: { type?: string, property: string, limit: number, cohorts?: readonly number[] } | null
  /** Of a funnel that is broken down. */
  attribution: string
  compare: boolean
  formula: string | null
  steps: PlainChoice[]
  window: { value: number, unit: string }
  order: string
  exclude: (PlainChoice & { from: number, to: number })[]
  cohort: string
  start: PlainChoice
  activity: PlainChoice
  returns: string
  returning: PlainChoice
  paths: {
    anchor: PlainChoice, isBackward: boolean, steps: number, names: string[] | null, nodes: number, minPeople: number
    gap: { value: number, unit: string }
  }
}

/** `begins`: when the first event of the project happened, which `events` may leave out. */
export interface PlainWorld { events: PlainEvent[], timezone: string, now: number, begins: number }

export function meets ({ event = null, where = [] }: PlainChoice, of: PlainEvent): boolean {
  return (event === null || event === of.event) && where.every(({ type, key, operator, value }) => {
    if (type === 'cohort') return of.cohorts.has(Number(value)) === (operator === 'in')
    const { test, whenAbsent } = findOperator(operator)!(value, { timezone: 'UTC', invalid: (message) => { throw new Error(message) } })
    const properties = type === 'person' ? of.personProperties : of.properties
    return Object.hasOwn(properties, key) ? test(properties[key], 0) : whenAbsent
  })
}

export function tagOf (breakdown: PlainQuestion['breakdown'], { properties, personProperties }: PlainEvent): string {
  if (breakdown === null) return 'all'
  const value = (breakdown.type === 'person' ? personProperties : properties)[breakdown.property]
  if (value === undefined) return 'not_set'
  return `value ${typeof value === 'string' ? value : JSON.stringify(value)}`
}

/** Parts that an event counts in: of cohorts all of its person's. */
export function tagsOf (breakdown: PlainQuestion['breakdown'], event: PlainEvent): string[] {
  if (breakdown?.type !== 'cohort') return [tagOf(breakdown, event)]
  const own = (breakdown.cohorts ?? []).filter((id) => event.cohorts.has(id)).map((id) => `value ${id}`)
  return own.length === 0 ? ['not_set'] : own
}

/** As ClickHouse orders texts; the marks that say that a property is not set come first. */
export const byBytes = (one: string, other: string): number => Buffer.compare(bytesOf(one), bytesOf(other))

const bytesOf = (tag: string): Buffer => Buffer.from(tag.replace('not_set', ''))

export function largest (ranks: Map<string, number>, limit: number): Set<string> {
  const ranked = [...ranks].sort(([one, a], [other, b]) => b - a || byBytes(one, other))
  return new Set(ranked.slice(0, limit).map(([tag]) => tag))
}
