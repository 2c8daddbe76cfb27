import { invalidField } from '../../../engines/errors.ts'
import { fieldsOf, itemsOf } from '../../../engines/fields.ts'
import { type PropertyCondition, readConditions } from '../../../engines/operators/property-conditions.ts'
import { METRIC_KINDS, type MetricKind } from '../../../engines/statistics/variant-statistics.ts'
import { KIND_OF_MATH, OWN_READERS, readInsight, refuseStray, type ROLES } from './metric-schema.ts'

/** Each costs some queries, one after the other, while somebody waits. */
const MAX_METRICS = 100

/** What an experiment measures, read from what a client wrote. */
export interface Metric {
  name: string
  kind: MetricKind
  /** In order for a funnel; numerator and denominator of a ratio; return and start of a retention; else exactly one. */
  steps: MetricStep[]
  /** Property whose values are added up or averaged; null for funnels and counts. */
  property: string | null
  /** The same of a denominator. */
  belowProperty: string | null
  caps: Caps | null
  belowCaps: Caps | null
  /** Whether it is one sum over people by another. */
  isRatio: boolean
  /** How long after the first exposure an event counts, in seconds; 0 is without an end. */
  windowSeconds: number
  /** The metric is this quantile over people instead of their mean; null for the mean. */
  quantile: number | null
  retention: Retention | null
  /** What it is for; null is by its place. */
  role: typeof ROLES[number] | null
  /** Whether more of it is better, which guardrails need. */
  isIncreaseGood: boolean
  /** Loss that a guardrail allows, as a share of the baseline. */
  margin: number
}

interface MetricStep {
  /** Name of the event; null is any. */
  event: string | null
  where: PropertyCondition[]
}

/** Percentiles over all variants together, as shares; null is no bound. */
export interface Caps {
  lower: number | null
  upper: number | null
  /** The upper percentile is that of the values that are not zero. */
  ignoresZeros: boolean
}

/** In which window after the start people come back. */
interface Retention {
  from: number
  to: number
  unit: keyof typeof SECONDS
  /** The last start event of a person counts, not the first. */
  isLastSeen: boolean
}

type OwnFields = ReturnType<typeof OWN_READERS[MetricKind]>
type Fields = Readonly<Record<string, unknown>>

const SECONDS = { second: 1, minute: 60, hour: 3600, day: 86_400, week: 604_800, month: 2_592_000 }

/**
 * Reads a metric, in either of two forms (`docs/change/experiments.md` has examples):
 *
 * - the clients' own: `{ insight: 'FUNNELS' | 'TRENDS', events: [{ id, math, math_property, properties }] }`;
 * - ours: `{ metric: { kind: 'funnel' | 'count' | 'sum' | 'mean', event | steps, property, where, window_days } }`.
 *
 * @param path  Where it stands, for errors.
 * @returns undefined without a metric.
 * @throws {HttpError} 400 naming the field that cannot be understood.
 */
export function readMetric (path: string, value: unknown): Metric | undefined {
  const fields = fieldsOf(value)
  const { metric = null } = fields
  if (metric !== null || fields['kind'] === undefined) refuseStray(path, fields, metric === null ? 'insight' : 'metric')
  if (metric !== null) return readOwnForm(`${path}__metric`, { ...purposeOf(fields), ...fieldsOf(metric) })
  if (fields['kind'] !== undefined) return readOwnForm(path, fields)
  const isEmpty = itemsOf(fields['events']).length === 0 && itemsOf(fields['actions']).length === 0
  return isEmpty ? undefined : readInsightForm(path, fields)
}

function readInsightForm (path: string, value: Fields): Metric | undefined {
  const fields = readInsight(path, value)
  const { insight, events: unordered = [], funnel_window_days: days, funnel_window_interval: interval, funnel_window_interval_unit: unit = 'day' } = fields
  const steps = unordered
    .map(({ id, properties, order }, index) => ({ id, properties, order: order ?? index, at: `${path}__events__${index}` }))
    .sort((a, b) => a.order - b.order)
    .map(({ id, properties, at }) => ({ event: id, where: readConditions(`${at}__properties`, properties) }))
  if (insight === 'FUNNELS') {
    return {
      ...readShared(path, fields, 'funnel'), steps,
      windowSeconds: days !== undefined ? readWindow(`${path}__funnel_window_days`, days, 'day') : readWindow(`${path}__funnel_window_interval`, interval, unit)
    }
  }
  if (steps.length > 1) throw invalidField(`${path}__events`, 'A metric of insight TRENDS has one event.')
  const { math = 'total', math_property: property = null } = unordered[0] ?? {}
  const kind = KIND_OF_MATH[math]
  const hasProperty = kind === 'sum' || kind === 'mean'
  if (hasProperty && property === null) throw invalidField(`${path}__events__0__math_property`, `A ${kind} needs the name of a property.`)
  return { ...readShared(path, fields, kind), steps, property: hasProperty ? property : null }
}

function readOwnForm (path: string, value: Fields): Metric {
  const kind = METRIC_KINDS.find((known) => known === value['kind'])
  if (kind === undefined) throw invalidField(`${path}__kind`, `kind of a metric must be one of ${METRIC_KINDS.join(', ')}.`)
  const fields = OWN_READERS[kind](path, value)
  const { numerator, denominator, start_event: start, completion_event: completion, steps, event, where } = fields
  const shared = {
    ...readShared(path, fields, kind), property: fields.property ?? null, windowSeconds: readWindow(`${path}__window_days`, fields.window_days, 'day')
  }
  if (start !== undefined && completion !== undefined) {
    const both = [readStep(`${path}__completion_event`, completion), readStep(`${path}__start_event`, start)]
    return { ...shared, steps: both, isRatio: true, retention: readRetention(path, fields) }
  }
  if (numerator !== undefined && denominator !== undefined) {
    return {
      ...shared, isRatio: true, steps: [readStep(`${path}__numerator`, numerator), readStep(`${path}__denominator`, denominator)],
      property: numerator.property ?? null, caps: readCaps(`${path}__numerator`, numerator),
      belowProperty: denominator.property ?? null, belowCaps: readCaps(`${path}__denominator`, denominator)
    }
  }
  if (steps === undefined) {
    if (event === undefined) throw invalidField(`${path}__event`, 'event of a metric must be the name of an event.', 'required')
    return { ...shared, steps: [readStep(path, { event, where })] }
  }
  if (event !== undefined || where !== undefined) throw invalidField(`${path}__${event === undefined ? 'where' : 'event'}`, 'A metric with steps has its events and conditions there.')
  if (kind !== 'funnel' && steps.length > 1) throw invalidField(`${path}__steps`, `A metric of kind ${kind} has one event.`)
  return { ...shared, steps: steps.map((each, index) => readStep(`${path}__steps__${index}`, each)) }
}

/** What both forms have; the rest as of a metric of one value. @throws {HttpError} 400 for what contradicts itself. */
function readShared (path: string, fields: Pick<OwnFields, 'name' | 'role' | 'goal' | 'margin' | 'quantile'> & Bounds, kind: MetricKind): Metric {
  const { name = '', role = null, goal, margin, quantile = null } = fields
  const caps = readCaps(path, fields)
  if (kind === 'funnel' && caps !== null) throw invalidField(`${path}__upper_bound_percentile`, 'A funnel has no outliers.')
  if (quantile !== null && (kind === 'funnel' || caps !== null)) {
    throw invalidField(`${path}__quantile`, 'quantile is for a count, sum or mean without percentile bounds.')
  }
  if ((role === 'guardrail') !== (margin !== undefined)) {
    throw invalidField(`${path}__margin`, 'A guardrail has a margin, in percent of the baseline; other metrics have none.')
  }
  return {
    name, kind, caps, quantile, role, steps: [], property: null, belowProperty: null, belowCaps: null, isRatio: false,
    windowSeconds: 0, retention: null, isIncreaseGood: goal !== 'decrease', margin: (margin ?? 0) / 100
  }
}

function readStep (path: string, step: string | { event: string, where?: unknown }): MetricStep {
  return typeof step === 'string' ? { event: step, where: [] } : { event: step.event, where: readConditions(`${path}__where`, step.where) }
}

function readWindow (path: string, value: number | undefined, unit: keyof typeof SECONDS): number {
  if (value === undefined) return 0
  const seconds = Math.round(value * SECONDS[unit])
  if (seconds >= 1 && seconds <= 4_294_967_295) return seconds
  throw invalidField(path, 'The window after exposure must be at least a second and less than 136 years.')
}

type Bounds = Pick<OwnFields, 'lower_bound_percentile' | 'upper_bound_percentile' | 'ignore_zeros'>

function readCaps (path: string, { ignore_zeros: ignoresZeros = false, ...bounds }: Bounds): Caps | null {
  const { lower_bound_percentile: lower = null, upper_bound_percentile: upper = null } = bounds
  if (lower !== null && upper !== null && lower >= upper) throw invalidField(`${path}__lower_bound_percentile`, 'lower_bound_percentile must be below upper_bound_percentile.')
  return lower === null && upper === null ? null : { lower, upper, ignoresZeros }
}

function readRetention (path: string, fields: OwnFields): Retention {
  const { retention_window_start: from = 1, retention_window_end: to = 7, retention_window_unit: unit = 'day', start_handling: handling } = fields
  if (to < from) throw invalidField(`${path}__retention_window_end`, 'retention_window_end must not be below retention_window_start.')
  return { from, to, unit, isLastSeen: handling === 'last_seen' }
}

/**
 * The secondary metrics of an experiment: an array, `{ metrics: [...] }`, or an object of metrics by name. Each is a
 * metric in either form, or holds one under `filters`.
 *
 * @throws {HttpError} 400 naming the field that cannot be understood.
 */
export function readSecondaryMetrics (value: unknown): Metric[] {
  return readEntries(listEntries(value))
}

/** Those of them with the role `primary`; what is wrong with others does not matter. */
export function readPrimaryOnly (value: unknown): Metric[] {
  return readEntries(listEntries(value).filter(([,, entry]) => {
    const { role, metric, filters } = fieldsOf(entry)
    return [role, fieldsOf(metric)['role'], fieldsOf(filters)['role'], fieldsOf(fieldsOf(filters)['metric'])['role']].includes('primary')
  }))
}

function readEntries (entries: ReturnType<typeof listEntries>): Metric[] {
  if (entries.length > MAX_METRICS) throw invalidField('secondary_metrics', `Results are computed for at most ${MAX_METRICS} metrics.`)
  return entries.map(([path, name, entry]) => {
    const { filters, name: ownName = name } = fieldsOf(entry)
    const metric = filters === undefined ? readMetric(path, entry) : readMetric(`${path}__filters`, { ...purposeOf(entry), ...fieldsOf(filters) })
    if (metric === undefined) throw invalidField(path, 'A secondary metric must name its events.')
    return { ...metric, name: typeof ownName === 'string' ? ownName : metric.name }
  })
}

/** What a metric is for may stand beside it, too. */
function purposeOf (value: unknown): Fields {
  return Object.fromEntries(Object.entries(fieldsOf(value)).filter(([name]) => name === 'role' || name === 'goal' || name === 'margin'))
}

function listEntries (value: unknown): [path: string, name: string, entry: unknown][] {
  const { metrics } = fieldsOf(value)
  if (Array.isArray(value)) return value.map((entry, index) => [`secondary_metrics__${index}`, '', entry])
  if (Array.isArray(metrics)) return metrics.map((entry, index) => [`secondary_metrics__metrics__${index}`, '', entry])
  return Object.entries(Object(value) as object).map(([name, entry]) => [`secondary_metrics__${name}`, name, entry])
}
