import { invalidField } from '../../../engines/errors.ts'
import { fieldsOf } from '../../../engines/fields.ts'
import { METRIC_KINDS, type MetricKind } from '../../../engines/statistics/variant-statistics.ts'
import { type Caps, type MetricOptions, NO_OPTIONS, readCaps, readOptions, readRetention, RETENTION_FIELDS } from './metric-options.ts'
import { type PropertyCondition, readConditions } from '../../../engines/operators/property-conditions.ts'

/** What an experiment measures, read from what a client wrote. */
export interface Metric extends MetricOptions {
  name: string
  kind: MetricKind
  /** In order for a funnel; numerator and denominator of a ratio; return and start of a retention; else exactly one. */
  steps: MetricStep[]
  /** Property whose values are added up or averaged; null for funnels and counts. */
  property: string | null
  /** The same of a denominator. */
  belowProperty: string | null
  belowCaps: Caps | null
  /** Whether it is one sum over people by another. */
  isRatio: boolean
  /** How long after the first exposure an event counts, in seconds; 0 is without an end. */
  windowSeconds: number
}

interface MetricStep {
  /** Name of the event; null is any. */
  event: string | null
  where: PropertyCondition[]
}

/** The mask of steps has 32 bits; nobody reads longer funnels. */
const MAX_STEPS = 20

type Fields = Record<string, unknown>

/**
 * Reads a metric, in either of two forms (`docs/change/experiments.md` has examples):
 *
 * - the clients' own: `{ insight: 'FUNNELS' | 'TRENDS', events: [{ id, math, math_property, properties }] }`;
 * - ours: `{ metric: { kind: 'funnel' | 'count' | 'sum' | 'mean', event | steps, property, where, window_days } }`.
 *
 * @param path  Where it stands, for errors.
 * @returns undefined when there is none.
 * @throws {HttpError} 400 naming the field that cannot be understood.
 */
export function readMetric (path: string, value: unknown): Metric | undefined {
  const fields = fieldsOf(value)
  if (fields['metric'] !== undefined) return readOwnForm(`${path}__metric`, { ...purposeOf(fields), ...fieldsOf(fields['metric']) })
  if (fields['kind'] !== undefined) return readOwnForm(path, fields)
  const events = fields['events']
  refuseActions(`${path}__actions`, fields['actions'])
  if (!Array.isArray(events) || events.length === 0) return undefined
  return fields['insight'] === 'FUNNELS' ? readFunnel(path, fields, events) : readTrend(path, fields, events)
}

function readFunnel (path: string, fields: Fields, events: unknown[]): Metric {
  const ordered = events
    .map((event, index) => ({ step: readStep(`${path}__events__${index}`, event), order: Number(Object(event).order ?? index) }))
    .sort((a, b) => a.order - b.order)
    .map(({ step }) => step)
  return {
    ...ONE_VALUE, ...readOptions(path, fields, 'funnel'),
    name: readName(fields), kind: 'funnel', steps: limitSteps(`${path}__events`, ordered), property: null,
    windowSeconds: readFunnelWindow(path, fields)
  }
}

function readTrend (path: string, fields: Fields, events: unknown[]): Metric {
  const insight = fields['insight'] ?? 'TRENDS'
  if (insight !== 'TRENDS') throw invalidField(`${path}__insight`, 'insight must be FUNNELS or TRENDS.')
  if (events.length > 1) throw invalidField(`${path}__events`, 'A metric of insight TRENDS has one event.')
  const at = `${path}__events__0`
  const { math = 'total', math_property: property = null } = fieldsOf(events[0])
  const kind = typeof math === 'string' ? KIND_OF_MATH.get(math) : undefined
  if (kind === undefined) {
    throw invalidField(`${at}__math`, `math must be one of ${[...KIND_OF_MATH.keys()].join(', ')}.`)
  }
  return {
    ...ONE_VALUE, ...readOptions(path, fields, kind),
    name: readName(fields), kind, steps: [readStep(at, events[0])],
    property: readProperty(`${at}__math_property`, kind, property), windowSeconds: 0
  }
}

const ONE_VALUE = { ...NO_OPTIONS, belowProperty: null, belowCaps: null, isRatio: false }

/** People who sent the event at all are a funnel of one step. */
const KIND_OF_MATH = new Map<string, MetricKind>([
  ['total', 'count'], ['dau', 'funnel'], ['unique_users', 'funnel'], ['sum', 'sum'], ['avg', 'mean']
])

function readStep (path: string, value: unknown): MetricStep {
  const { id, type = 'events', properties } = fieldsOf(value)
  if (type !== 'events') refuseActions(path, [value])
  if (id !== null && (typeof id !== 'string' || id === '')) {
    throw invalidField(`${path}__id`, 'id of an event must be its name, or null for any event.')
  }
  return { event: id, where: readConditions(`${path}__properties`, properties) }
}

function refuseActions (path: string, actions: unknown): void {
  if (Array.isArray(actions) && actions.length > 0) throw invalidField(path, 'Actions are not supported; name events.')
}

const SECONDS = new Map([['second', 1], ['minute', 60], ['hour', 3600], ['day', 86_400], ['week', 604_800], ['month', 2_592_000]])

function readFunnelWindow (path: string, fields: Fields): number {
  const days = fields['funnel_window_days']
  if (days !== undefined) return readWindow(`${path}__funnel_window_days`, days, 86_400)
  const interval = fields['funnel_window_interval']
  if (interval === undefined || interval === null) return 0
  const unit = SECONDS.get(String(fields['funnel_window_interval_unit'] ?? 'day'))
  if (unit === undefined) {
    throw invalidField(`${path}__funnel_window_interval_unit`, `funnel_window_interval_unit must be one of ${[...SECONDS.keys()].join(', ')}.`)
  }
  return readWindow(`${path}__funnel_window_interval`, interval, unit)
}

function readWindow (path: string, value: unknown, unitSeconds: number): number {
  const seconds = Math.round(Number(value) * unitSeconds)
  if (typeof value === 'number' && seconds >= 1 && seconds <= 4_294_967_295) return seconds
  throw invalidField(path, 'The window after exposure must be a number above 0.')
}

function fieldsOfKind (kind: MetricKind): readonly string[] {
  if (kind === 'ratio') return ['numerator', 'denominator']
  return kind === 'retention' ? RETENTION_FIELDS : ['event', 'steps', 'property', 'where']
}

const FIELDS_OF_ALL = [
  'name', 'kind', 'window_days', 'lower_bound_percentile', 'upper_bound_percentile', 'ignore_zeros', 'quantile', 'role', 'goal', 'margin'
]

function readOwnForm (path: string, fields: Fields): Metric {
  const { event, steps, where, window_days: windowDays } = fields
  const kind = METRIC_KINDS.find((known) => known === fields['kind'])
  if (kind === undefined) throw invalidField(`${path}__kind`, `kind of a metric must be one of ${METRIC_KINDS.join(', ')}.`)
  refuseUnknown(path, fields, [...fieldsOfKind(kind), ...FIELDS_OF_ALL])
  const shared = {
    ...readOptions(path, fields, kind), name: readName(fields), kind,
    windowSeconds: windowDays === undefined ? 0 : readWindow(`${path}__window_days`, windowDays, 86_400)
  }
  if (kind === 'retention') {
    const returns = [readOwnStep(`${path}__completion_event`, fields['completion_event']), readOwnStep(`${path}__start_event`, fields['start_event'])]
    const retention = readRetention(path, fields)
    return { ...ONE_VALUE, ...shared, steps: returns, property: null, isRatio: true, retention }
  }
  if (kind === 'ratio') {
    const [above, below] = (['numerator', 'denominator'] as const).map((name) => readPart(`${path}__${name}`, fields[name]))
    if (above === undefined || below === undefined) throw new RangeError('a ratio has two parts')
    return {
      ...shared, steps: [above.step, below.step], isRatio: true,
      property: above.property, caps: above.caps, belowProperty: below.property, belowCaps: below.caps
    }
  }
  const list = Array.isArray(steps) ? steps : [{ event, where }]
  if (kind !== 'funnel' && list.length !== 1) throw invalidField(`${path}__steps`, `A metric of kind ${kind} has one event.`)
  return {
    ...ONE_VALUE,
    ...shared,
    steps: limitSteps(`${path}__steps`, list.map((step, index) => readOwnStep(Array.isArray(steps) ? `${path}__steps__${index}` : path, step))),
    property: readProperty(`${path}__property`, kind, fields['property'] ?? null)
  }
}

/** One sum of a ratio: of a property, or the number of events. */
function readPart (path: string, value: unknown): { step: MetricStep, property: string | null, caps: Caps | null } {
  const fields = fieldsOf(value)
  refuseUnknown(path, fields, ['event', 'where', 'property', 'lower_bound_percentile', 'upper_bound_percentile', 'ignore_zeros'])
  const { property = null } = fields
  return {
    step: readOwnStep(path, fields), caps: readCaps(path, fields),
    property: property === null ? null : readProperty(`${path}__property`, 'sum', property)
  }
}

/** A field that would be ignored is mostly a misspelt one. */
function refuseUnknown (path: string, fields: Fields, known: readonly string[]): void {
  const unknown = Object.keys(fields).find((name) => !known.includes(name))
  if (unknown !== undefined) throw invalidField(`${path}__${unknown}`, `A metric of this kind has no ${unknown}.`)
}

function readOwnStep (path: string, value: unknown): MetricStep {
  const { event, where } = typeof value === 'string' ? { event: value } : fieldsOf(value)
  if (typeof event !== 'string' || event === '') throw invalidField(`${path}__event`, 'event of a metric must be the name of an event.')
  return { event, where: readConditions(`${path}__where`, where) }
}

function limitSteps (path: string, steps: MetricStep[]): MetricStep[] {
  if (steps.length >= 1 && steps.length <= MAX_STEPS) return steps
  throw invalidField(path, `A funnel has 1 to ${MAX_STEPS} steps.`)
}

function readProperty (path: string, kind: MetricKind, property: unknown): string | null {
  if (kind !== 'sum' && kind !== 'mean') return null
  if (typeof property === 'string' && property !== '') return property
  throw invalidField(path, `A ${kind} needs the name of a property.`)
}

function readName ({ name }: Fields): string {
  return typeof name === 'string' ? name : ''
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
