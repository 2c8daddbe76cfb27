/** Definitions of questions as the console writes them, and they and their comparisons as sentences. */
import type { ChartKind } from '../../../engines/charts/chart-model.ts'
import type { FunnelAnswer, LifecycleAnswer, PathsAnswer, RetentionAnswer, StickinessAnswer, TrendAnswer } from '../../../engines/questions/shape-answer.ts'
import type { Schema } from '../../api-types.ts'
import { cohortNames, describeFilter, type PropertyFilter } from '../flags/flag-filters.ts'
import { formatMs, formatterOf, pointName, shareOf } from '../format.ts'

export type { FunnelAnswer, LifecycleAnswer, PathsAnswer, Point, RetentionAnswer, StickinessAnswer, TrendAnswer, TrendLine } from '../../../engines/questions/shape-answer.ts'

export interface EventChoice { event: string | null, where: PropertyFilter[] }
export interface SeriesChoice extends EventChoice { measure: string, property?: string }

export interface Range { last?: number, unit?: string, whole?: boolean, from?: string, to?: string }

/** `week_starts` null: as the project's weeks do. */
interface Shared { version: 1, range: Range, include_bots: boolean, week_starts: string | null }
/** `order` and `attribution` are of funnels. */
export interface Breakdown {
  type?: string
  property?: string
  limit?: number
  cohorts?: number[]
  order?: string
  attribution?: string
}

export interface Trend extends Shared { kind: 'trend', interval: string, series: SeriesChoice[], breakdown: Breakdown | null, compare: boolean, formula: string | null, display?: ChartKind | undefined }
/** Of the steps, counted from 1, between which it must not happen. */
export interface Exclusion extends EventChoice { from: number, to: number }

export interface Funnel extends Shared { kind: 'funnel', steps: EventChoice[], exclude: Exclusion[], window: { value: number, unit: string }, order: string, breakdown: Breakdown | null }
export interface Retention extends Shared { kind: 'retention', interval: string, cohort: string, returns: string, start: EventChoice, returning: EventChoice }
export interface Activity extends Shared { kind: 'lifecycle' | 'stickiness', interval: string, activity: EventChoice }

/** Either `from` or `to` an event. */
export interface Paths extends Shared {
  kind: 'paths', from: EventChoice | null, to: EventChoice | null, steps: number, events: string[] | null, nodes: number, min_people: number
  gap: { value: number, unit: string }
}

export type Definition = Trend | Funnel | Retention | Activity | Paths

/** Asks another question instead. `isAnswered`: the same one, shown in another way. */
export type Ask = (definition: Definition, isAnswered?: boolean) => void

export interface Question extends Omit<Schema<'Question'>, 'definition'> { definition: Definition }

export interface Answered extends Schema<'QuestionAnswer'> { answer: TrendAnswer | FunnelAnswer | RetentionAnswer | LifecycleAnswer | StickinessAnswer | PathsAnswer }

export const KINDS = {
  trend: ['Trend', 'how often something happens, over time'],
  funnel: ['Funnel', 'how many get from one step to the next'],
  retention: ['Retention', 'how many come back'],
  lifecycle: ['Lifecycle', 'how many are new, returning, resurrecting or dormant'],
  stickiness: ['Stickiness', 'in how many periods people are active'],
  paths: ['Paths', 'what people do next, or did before']
} as const

export type Kind = keyof typeof KINDS

export const MEASURES: Readonly<Record<string, string>> = {
  events: 'events', people: 'people', per_person: 'events per person', groups: 'groups of type', sum: 'sum of', average: 'average of', median: 'median of',
  p90: '90th percentile of', min: 'minimum of', max: 'maximum of'
}

export const needsProperty = (measure: string): boolean => measure.startsWith('groups') || MEASURES[measure]?.endsWith(' of') === true

const ANY: EventChoice = { event: null, where: [] }
export const EMPTY_EVENT: EventChoice = { event: '', where: [] }

export function newDefinition (kind: Kind): Definition {
  const shared = { version: 1, include_bots: false, week_starts: null } as const
  const month = { last: 30, unit: 'day' }
  switch (kind) {
    case 'trend': return { kind, ...shared, range: month, interval: 'day', series: [{ ...EMPTY_EVENT, measure: 'events' }], breakdown: null, compare: false, formula: null }
    case 'funnel': return { kind, ...shared, range: month, steps: [EMPTY_EVENT, EMPTY_EVENT], exclude: [], window: { value: 14, unit: 'day' }, order: 'in_order', breakdown: null }
    case 'retention': return { kind, ...shared, range: { last: 8, unit: 'week' }, interval: 'week', cohort: 'first', returns: 'on', start: EMPTY_EVENT, returning: ANY }
    case 'paths': return { kind, ...shared, range: month, from: EMPTY_EVENT, to: null, steps: 5, events: null, nodes: 20, min_people: 1, gap: { value: 30, unit: 'minute' } }
    case 'lifecycle': case 'stickiness': return { kind, ...shared, range: { last: 8, unit: 'week' }, interval: 'week', activity: ANY }
  }
}

/** A series without the property that its measure does not have. */
export function trimSeries ({ property, ...series }: SeriesChoice): SeriesChoice {
  return property !== undefined && needsProperty(series.measure) ? { ...series, property } : series
}

/** With every field, whatever a script left out. */
export function withDefaults (definition: Definition): Definition {
  const fill = <T extends EventChoice>(choice: T): T =>
    ({ ...choice, event: choice.event ?? null, where: choice.where ?? [] })
  const whole = { ...newDefinition(definition.kind), ...definition } as Definition
  switch (whole.kind) {
    case 'trend': {
      const series = whole.series.map((each) => fill(trimSeries({ ...each, measure: each.measure ?? 'events' })))
      return { ...whole, series }
    }
    case 'funnel': {
      const between = { from: 1, to: whole.steps.length }
      const exclude = whole.exclude.map((each) => fill({ ...between, ...each }))
      return { ...whole, steps: whole.steps.map(fill), exclude }
    }
    case 'paths': {
      const [from, to] = definition.kind === 'paths' ? [definition.from ?? null, definition.to ?? null] : [whole.from, whole.to]
      return { ...whole, from: from && fill(from), to: to && fill(to) }
    }
    case 'retention': return { ...whole, start: fill(whole.start), returning: fill(whole.returning) }
    case 'lifecycle': case 'stickiness': return { ...whole, activity: fill(whole.activity) }
  }
}

export function describeEvent ({ event, where }: EventChoice): string {
  const name = event === null ? 'any event' : event === '' ? 'an event' : event
  return name + describeConditions(where)
}

/** ` where the person’s plan is "pro"`; empty without conditions. */
export function describeConditions (where: EventChoice['where']): string {
  const conditions = where.map((filter) => `${filter.type === 'person' ? 'the person’s ' : ''}${describeFilter(filter)}`)
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}

/** `People of paid by day, by plan`. */
export function describeQuestion (definition: Definition): string {
  switch (definition.kind) {
    case 'trend': {
      const series = definition.series.map((each) =>
        `${MEASURES[each.measure] ?? each.measure}${needsProperty(each.measure) ? ` ${each.property ?? ''}` : ''} of ${describeEvent(each)}`)
      return `${definition.formula == null ? '' : `${definition.formula} for `}${series.join(', ')} by ${definition.interval}${by(definition.breakdown)}`
    }
    case 'funnel': {
      const steps = definition.steps.map(describeEvent)
      const excluded = definition.exclude.map((each) => `, without ${describeEvent(each)}`)
      return `${steps.join(definition.order === 'any_order' ? ' and ' : ', then ')}${excluded.join('')}${by(definition.breakdown)}`
    }
    case 'paths': return [definition.from, definition.to].flatMap((event, index) => event === null ? [] : `paths ${index === 0 ? 'from' : 'to'} ${describeEvent(event)}`).join()
    case 'retention': return `${describeEvent(definition.start)}, then ${describeEvent(definition.returning)} by ${definition.interval}`
    case 'lifecycle': case 'stickiness': return `${describeEvent(definition.activity)} by ${definition.interval}`
  }
}

/** The events with which an answer begins, null for any: where nobody did them, it has nothing. */
export function firstEvents (definition: Definition): (string | null)[] {
  const choices = (): (EventChoice | null | undefined)[] => {
    switch (definition.kind) {
      case 'trend': return definition.series
      case 'funnel': return definition.steps.slice(0, 1)
      case 'retention': return [definition.start]
      case 'paths': return [definition.from ?? definition.to]
      case 'lifecycle': case 'stickiness': return [definition.activity]
    }
  }
  return choices().map((choice) => choice?.event ?? null)
}

/** Ranges that have a name, by what {@link describeUnits} makes of them. */
export const RANGES = [
  ['1 day', 'today'], ['1 whole day', 'yesterday'], ['1 week', 'this week'], ['1 whole week', 'last week'], ['1 month', 'this month'], ['1 whole month', 'last month']
] as const

/** `30 day`, `1 whole week`. */
export const describeUnits = ({ last = 30, unit = 'day', whole = false }: Range): string => `${last} ${whole ? 'whole ' : ''}${unit}`

function by (breakdown: Breakdown | null): string {
  if (breakdown?.type === 'cohort') return ', by cohort'
  return breakdown === null ? '' : `, by ${breakdown.attribution === 'any' ? 'any ' : ''}${breakdown.type === 'person' ? 'the person’s ' : ''}${breakdown.property ?? ''}`
}

/** A value of a breakdown; labels that are not values are in parentheses. */
export function partName ({ part, value }: { part: string, value: string | null }): string {
  switch (part) {
    case 'all': return 'everybody'
    case 'not_set': return '(not set)'
    case 'rest': return '(all others)'
    case 'cohort': return cohortNames.value.get(value ?? '') ?? `cohort ${value ?? ''}`
    default: return value === '' ? '(empty)' : value ?? ''
  }
}

/** `2 h 5 min` or `2 h`, of milliseconds. */
export function formatDuration (ms: number | null): string {
  const minutes = Math.round((ms ?? 0) / 60_000)
  if (ms === null || minutes < 60) return formatMs(ms)
  const hours = Math.floor(minutes / 60)
  const text = hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days ${hours % 24} h`
  return text.replace(/ 0 (?:h|min)$/, '')
}

/**
 * The share that returned in each period after the start, of everybody who could: who began too late for a whole period
 * does not count in it.
 */
export function meanReturn (cohorts: RetentionAnswer['cohorts']): (number | null)[] {
  const most = Math.max(0, ...cohorts.map(({ returned }) => returned.length))
  return Array.from({ length: most }, (_, period) => {
    const whole = cohorts.flatMap(({ people, returned }) => {
      const { people: back = null, is_partial: isPartial = true } = returned[period] ?? {}
      return people === null || back === null || isPartial ? [] : [{ people, back }]
    })
    return shareOf(whole.reduce((sum, { back }) => sum + back, 0), whole.reduce((sum, { people }) => sum + people, 0))
  })
}

type Previous = NonNullable<TrendAnswer['previous']>

/**
 * Which time a trend is compared with, whether it stops before its end, and from when it has values.
 *
 * @param firstDay  Of the range.
 * @param timezone  IANA name, of the project.
 */
export function describeComparison ({ from, to, points, lines }: Previous, firstDay: string, timezone: string): string {
  const name = (at: number | string): string => formatterOf(timezone).format(new Date(at)).slice(0, 16)
  const isWhole = name(to).startsWith(firstDay)
  const end = isWhole ? name(Date.parse(to) - 1).slice(0, 10) : name(to)
  const days = `Before: ${name(from).slice(0, 10)} to ${end}.`
  const soFar = isWhole ? '' : ' The range is still running, so the previous period stops at the same point.'
  const first = points.findIndex((_, index) => lines.some(({ values }) => (values[index] ?? 0) !== 0))
  const removed = points.findLastIndex(({ is_removed: isRemoved }) => isRemoved) + 1
  const values = removed > 0
    ? ` ${removed === points.length ? 'Retention removed its events, so no comparison is possible' : `It has values from ${pointName(points[removed]?.start ?? '', timezone)}: retention removed earlier events`}.`
    : first === -1
      ? ' No event of that time matches, so there is nothing to compare with.'
      : first === 0 ? '' : ` Its first values are of ${pointName(points[first]?.start ?? '', timezone)}: it had nothing earlier.`
  return days + soFar + values
}
