/** What a cohort is made of: what persons are like, what they did, and other cohorts, in groups of AND and OR. */
import { DefinitionError, invalidField } from '../errors.ts'
import { isFields } from '../fields.ts'
import { type PropertyCondition, readCondition, readConditions, readMembership } from '../operators/property-conditions.ts'
import { Place, RULE_LIMITS } from '../rules/rule-definition.ts'
import { EARLIEST_MS } from '../parse-timestamp.ts'
import { addPeriods } from './calendar.ts'
import { type DateOrVersion, readDateOrVersion } from './date-version-sql.ts'
import type { EventChoice } from './question.ts'

export type CohortNode =
  | { type: 'AND' | 'OR', values: CohortNode[] }
  | { type: 'NOT', value: CohortNode }
  | { type: 'person', condition: PropertyCondition | DateOrVersion }
  | { type: 'cohort', id: number }
  | { type: 'did', behavior: Behavior }

/** How often a person did something in a window that ends now. */
export interface Behavior {
  choice: EventChoice
  window: { value: number, unit: CohortUnit }
  operator: typeof TIMES[number]
  times: number
}

const UNITS = ['hour', 'day', 'week', 'month', 'year'] as const
type CohortUnit = typeof UNITS[number]

const TIMES = ['gte', 'lte', 'exact', 'gt', 'lt'] as const

/** Bounds of a cohort, beside those of a rule. */
export const COHORT_LIMITS = {
  behaviors: 20, conditions: RULE_LIMITS.conditions, times: 1_000_000, window: 10_000,
  /** Conditions and groups, with those of the cohorts in it and in these. */
  expanded: 1000
} as const

const GROUPS = ['AND', 'OR'] as const

/**
 * Reads the filters of a cohort as they are stored: those of PostHog, as far as they can be computed from events and
 * persons. Whatever would not be obeyed is refused.
 *
 * @throws {HttpError} 400 naming the field.
 */
export function readCohort (filters: unknown): CohortNode {
  try {
    const counts = { behaviors: 0, conditions: 0 }
    return readNode(new Place(filters, ['filters']), 0, (kind, place) => {
      if (++counts[kind] > COHORT_LIMITS[kind]) throw place.error(`A cohort has at most ${COHORT_LIMITS[kind]} ${kind}.`)
    })
  } catch (error) {
    if (!(error instanceof DefinitionError)) throw error
    throw invalidField(error.path.join('__'), error.message, 'invalid_input', error)
  }
}

type CountPart = (kind: 'behaviors' | 'conditions', place: Place) => void

function readNode (place: Place, depth: number, count: CountPart): CohortNode {
  const { value } = place
  if (depth > RULE_LIMITS.depth) throw place.error(`Groups are nested at most ${RULE_LIMITS.depth} deep.`)
  if (isFields(value) && isFields(value['properties'])) return readNode(place.fields('properties')('properties'), depth, count)
  if (!isFields(value) || 'values' in value) {
    const field = place.fields('type', 'values')
    const type = field('type').value === undefined ? 'AND' : field('type').oneOf(GROUPS)
    return { type, values: field('values').entries(COHORT_LIMITS.conditions).map((each) => readNode(each, depth + 1, count)) }
  }
  count('conditions', place)
  const node = readLeaf(place, value, count)
  return new Place(value['negation'], [...place.path, 'negation']).flag() ? { type: 'NOT', value: node } : node
}

function readLeaf (place: Place, value: Readonly<Record<string, unknown>>, count: CountPart): CohortNode {
  const path = place.path.join('__')
  const type = value['type'] === undefined ? 'person' : new Place(value['type'], [...place.path, 'type']).oneOf(['person', 'cohort', 'behavioral'])
  if (type === 'behavioral') {
    count('behaviors', place)
    return { type: 'did', behavior: readBehavior(place) }
  }
  const field = place.fields('key', 'value', 'type', 'operator', 'negation', 'label', 'cohort_name')
  if (type === 'cohort') {
    const { operator, values: [id] } = readMembership(path, { ...value, operator: value['operator'] === 'exact' ? 'in' : value['operator'] })
    const node: CohortNode = { type, id: Number(id) }
    return operator === 'in' ? node : { type: 'NOT', value: node }
  }
  const key = field('key').propertyName()
  if (key === 'distinct_id') throw field('key').error('A person may have several distinct ids, none of which is a property.')
  // As in flags, an empty list means "true" to these.
  const isEmpty = ['exact', 'is_not'].includes(String(value['operator'] ?? 'exact')) && Array.isArray(value['value']) && value['value'].length === 0
  const condition = readDateOrVersion(path, key, value) ?? readCondition(path, { ...value, type, ...isEmpty && { value: 'true' } }, [type])
  return { type, condition }
}

function readBehavior (place: Place): Behavior {
  const field = place.fields('type', 'value', 'key', 'event_type', 'event_filters', 'time_value', 'time_interval', 'explicit_datetime', 'operator', 'operator_value', 'negation')
  const kind = field('value').oneOf(['performed_event', 'performed_event_multiple'])
  if (field('event_type').value !== undefined) field('event_type').oneOf(['events'])
  const { value: event } = field('key')
  if (typeof event !== 'string' || event === '' || event.length > RULE_LIMITS.nameLength) throw field('key').error(`Expected the name of an event, of 1 to ${RULE_LIMITS.nameLength} characters.`)
  const where = readConditions(field('event_filters').path.join('__'), field('event_filters').value)
  const choice = { event, where }
  const window = readWindow(field)
  if (kind === 'performed_event') {
    for (const name of ['operator', 'operator_value']) if (field(name).value != null) throw field(name).error('Only performed_event_multiple counts.')
    return { choice, window, operator: 'gte', times: 1 }
  }
  return { choice, window, operator: field('operator').oneOf(TIMES), times: field('operator_value').integer(0, COHORT_LIMITS.times) }
}

const LETTERS: Readonly<Record<string, CohortUnit>> = { h: 'hour', d: 'day', w: 'week', m: 'month', y: 'year' }

/** `time_value` and `time_interval`, or `explicit_datetime`: `-30d`. */
function readWindow (field: (name: string) => Place): Behavior['window'] {
  const explicit = field('explicit_datetime')
  if (explicit.value == null) return { value: field('time_value').integer(1, COHORT_LIMITS.window), unit: field('time_interval').oneOf(UNITS) }
  const both = ['time_value', 'time_interval'].map(field).find(({ value }) => value != null)
  if (both !== undefined) throw both.error('A window is either time_value and time_interval, or explicit_datetime.')
  const [, value, letter = ''] = /^-(\d{1,5})([hdwmy])$/.exec(String(explicit.value)) ?? []
  const unit = LETTERS[letter]
  if (unit === undefined) throw explicit.error('Expected a window that ends now, such as -30d.')
  return { value: new Place(Number(value), explicit.path).integer(1, COHORT_LIMITS.window), unit }
}

const HOUR_MS = 3_600_000
const LENGTH_MS = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 168 * HOUR_MS } as const

/** When a window begins that ends at a moment, in Unix milliseconds; months and years by the calendar of UTC. */
export function windowStart ({ value, unit }: Behavior['window'], now: number): number {
  if (unit !== 'month' && unit !== 'year') return Math.max(EARLIEST_MS, now - value * LENGTH_MS[unit])
  const today = new Date(now).toISOString().slice(0, 10)
  const months = unit === 'month' ? value : 12 * value
  return Math.max(EARLIEST_MS, Date.parse(addPeriods(today, -months, 'month')) + now - Date.parse(today))
}

/** The names of the events that filters ask about. */
export function eventsOf (filters: unknown): string[] {
  if (isFields(filters) && filters['type'] === 'behavioral') return [String(filters['key'])]
  return typeof filters === 'object' && filters !== null ? Object.values(filters).flatMap(eventsOf) : []
}

/** Whether filters ask what persons did; these cohorts are lists, found anew every few minutes. */
export const hasBehavior = (filters: unknown): boolean => eventsOf(filters).length > 0

/** The cohorts that filters or definitions name, however deep, each with a path to where it is named. */
export function cohortsOf (value: unknown, path: readonly string[] = []): Map<number, string> {
  if (typeof value !== 'object' || value === null) return new Map()
  const isNaming = 'type' in value && value.type === 'cohort'
  return new Map(Object.entries(value).flatMap(([name, item]: [string, unknown]) => {
    const place = [...path, name]
    const named = isNaming && ['value', 'values', 'cohorts'].includes(name) ? [item].flat(2).map(Number).filter(Number.isInteger) : []
    return [...cohortsOf(item, place), ...named.map((id): [number, string] => [id, place.join('__')])]
  }))
}

/** Replaces cohorts by what they are made of; lists stay. @throws {HttpError} for what cannot be computed. */
export function expandCohorts (
  node: CohortNode, find: (id: number) => unknown, outer: readonly number[] = [], size = { nodes: 0 }
): CohortNode {
  // Each cohort may name another one many times.
  if (++size.nodes > COHORT_LIMITS.expanded) throw invalidField('filters', `A cohort has at most ${COHORT_LIMITS.expanded} conditions and groups, including those of its cohorts.`)
  switch (node.type) {
    case 'AND': case 'OR': return { ...node, values: node.values.map((each) => expandCohorts(each, find, outer, size)) }
    case 'NOT': return { ...node, value: expandCohorts(node.value, find, outer, size) }
    case 'cohort': {
      const filters = find(node.id)
      if (filters === undefined) throw invalidField('filters', `Cohort ${node.id} does not exist.`, 'invalid')
      if (outer.includes(node.id)) throw invalidField('filters', `Cohort ${node.id} depends on itself.`, 'invalid')
      return filters === null ? node : expandCohorts(readCohort(filters), find, [...outer, node.id], size)
    }
    default: return node
  }
}
