/** Definitions of questions as the console writes them, and as sentences. */
import type { FunnelAnswer, RetentionAnswer, TrendAnswer } from '../../../engines/questions/shape-answer.ts'
import type { Schema } from '../../../schema/api-types.ts'
import { describeFilter, type PropertyFilter } from '../flags/flag-filters.ts'

export type { FunnelAnswer, RetentionAnswer, TrendAnswer, TrendLine } from '../../../engines/questions/shape-answer.ts'

export interface EventChoice { event: string | null, where: PropertyFilter[] }
export interface SeriesChoice extends EventChoice { measure: string, property?: string }

export interface Range { last?: number, unit?: string, whole?: boolean, from?: string, to?: string }

interface Shared { version: 1, range: Range, include_bots: boolean, week_starts: string }
interface Breakdown { property: string, limit: number }

export interface Trend extends Shared { kind: 'trend', interval: string, series: SeriesChoice[], breakdown: Breakdown | null, compare: boolean }
export interface Funnel extends Shared { kind: 'funnel', steps: EventChoice[], window: { value: number, unit: string }, order: string, breakdown: Breakdown | null }
export interface Retention extends Shared { kind: 'retention', interval: string, cohort: string, start: EventChoice, returning: EventChoice }

export type Definition = Trend | Funnel | Retention

export interface Question extends Omit<Schema<'Question'>, 'definition'> { definition: Definition }

export interface Answered extends Schema<'QuestionAnswer'> { answer: TrendAnswer | FunnelAnswer | RetentionAnswer }

export const KINDS = {
  trend: ['Trend', 'how often something happens, over time'],
  funnel: ['Funnel', 'how many get from one step to the next'],
  retention: ['Retention', 'how many come back']
} as const

export type Kind = keyof typeof KINDS

export const MEASURES = { events: 'events', people: 'people', sum: 'sum of', average: 'average of' } as const

const ANY: EventChoice = { event: null, where: [] }
export const EMPTY_EVENT: EventChoice = { event: '', where: [] }

/** A question to begin with. */
export function newDefinition (kind: Kind): Definition {
  const shared = { version: 1, include_bots: false, week_starts: 'monday' } as const
  const month = { last: 30, unit: 'day' }
  switch (kind) {
    case 'trend': return { kind, ...shared, range: month, interval: 'day', series: [{ ...EMPTY_EVENT, measure: 'events' }], breakdown: null, compare: false }
    case 'funnel': return { kind, ...shared, range: month, steps: [EMPTY_EVENT, EMPTY_EVENT], window: { value: 14, unit: 'day' }, order: 'in_order', breakdown: null }
    case 'retention': return { kind, ...shared, range: { last: 8, unit: 'week' }, interval: 'week', cohort: 'first', start: EMPTY_EVENT, returning: ANY }
  }
}

/** With every field, whatever a script left out. */
export function withDefaults (definition: Definition): Definition {
  const fill = <T extends EventChoice>(choice: T): T =>
    ({ ...choice, event: choice.event ?? null, where: choice.where ?? [] })
  const whole = { ...newDefinition(definition.kind), ...definition } as Definition
  switch (whole.kind) {
    case 'trend': {
      const series = whole.series.map((each) => fill({ ...each, measure: each.measure ?? 'events' }))
      return { ...whole, series }
    }
    case 'funnel': return { ...whole, steps: whole.steps.map(fill) }
    case 'retention': return { ...whole, start: fill(whole.start), returning: fill(whole.returning) }
  }
}

export function describeEvent ({ event, where }: EventChoice): string {
  const name = event === null ? 'any event' : event === '' ? 'an event' : event
  return where.length === 0 ? name : `${name} where ${where.map(describeFilter).join(' and ')}`
}

/** `People of paid by day, by plan`. */
export function describeQuestion (definition: Definition): string {
  switch (definition.kind) {
    case 'trend': {
      const series = definition.series.map((each) => each.measure === 'sum' || each.measure === 'average'
        ? `${MEASURES[each.measure]} ${each.property ?? ''} of ${describeEvent(each)}`
        : `${each.measure ?? 'events'} of ${describeEvent(each)}`)
      return `${series.join(', ')} by ${definition.interval}${by(definition.breakdown)}`
    }
    case 'funnel': {
      const steps = definition.steps.map(describeEvent)
      return `${steps.join(definition.order === 'any_order' ? ' and ' : ', then ')}${by(definition.breakdown)}`
    }
    case 'retention': return `${describeEvent(definition.start)}, then ${describeEvent(definition.returning)} by ${definition.interval}`
  }
}

/** Ranges by name, those that people ask for. */
export const RANGES: readonly (readonly [name: string, range: Range])[] = [
  ['today', { last: 1, unit: 'day' }], ['yesterday', { last: 1, unit: 'day', whole: true }], ['this week', { last: 1, unit: 'week' }], ['last week', { last: 1, unit: 'week', whole: true }],
  ['this month', { last: 1, unit: 'month' }], ['last month', { last: 1, unit: 'month', whole: true }]
]

/** The unit that has not ended, in words. */
export const PRESENT: Record<string, string> = { day: 'today', week: 'this week', month: 'this month' }

/** `this month`, `today and the 29 days before`, of a range up to the present. */
export function describeRange ({ last = 30, unit = 'day', whole = false }: Range): string {
  const present = PRESENT[unit] ?? ''
  const count = whole ? last : last - 1
  const before = count === 1 ? `the ${unit} before` : `the ${count} ${unit}s before`
  if (!Number.isInteger(count) || count < 1) return present
  return whole ? `${before} ${present}` : `${present} and ${before}`
}

function by (breakdown: Breakdown | null): string {
  return breakdown === null ? '' : `, by ${breakdown.property}`
}

/** A value of a breakdown; what is no value is in round brackets. */
export function partName ({ part, value }: { part: string, value: string | null }): string {
  switch (part) {
    case 'all': return 'everybody'
    case 'not_set': return '(not set)'
    case 'rest': return '(all others)'
    default: return value === '' ? '(empty)' : value ?? ''
  }
}

const DATE = new Map<string, Intl.DateTimeFormat>()

/** The start of a point; hours by the clock of the project. */
export function pointName (start: string, timezone: string): string {
  if (start.length === 10) return start
  let format = DATE.get(timezone)
  if (format === undefined) {
    format = new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, dateStyle: 'short', timeStyle: 'short' })
    DATE.set(timezone, format)
  }
  return format.format(new Date(start))
}

/** `2 h 5 min`, of milliseconds. */
export function formatDuration (ms: number | null): string {
  if (ms === null) return '–'
  const seconds = ms / 1000
  if (seconds < 60) return `${seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)} s`
  const minutes = Math.round(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} days ${hours % 24} h`
}

/** `12.3 %`, of a share. */
export function formatShare (share: number | null): string {
  return share === null ? '–' : `${(share * 100).toFixed(1)} %`
}

const WHOLE = new Intl.NumberFormat('en')
const NUMBER = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })

/** A measure; nothing is left of very small ones. */
export function formatMeasure (value: number | null): string {
  return value === null ? '–' : value !== 0 && Math.abs(value) < 0.01 ? value.toPrecision(2) : (Number.isInteger(value) ? WHOLE : NUMBER).format(value)
}
