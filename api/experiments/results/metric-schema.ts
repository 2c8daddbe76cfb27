/** What a metric of an experiment may have: in our form, which differs by kind, and in the form of an insight. */
import { invalidField } from '../../../engines/errors.ts'
import type { MetricKind } from '../../../engines/statistics/variant-statistics.ts'
import { bodyOf, optional, schemaOf, type Value } from '../../http/json-schema.ts'
import { createReader } from '../../http/request-validation.ts'

export const ROLES = ['primary', 'secondary', 'guardrail'] as const
const UNITS = ['second', 'minute', 'hour', 'day', 'week', 'month'] as const

const text = { type: 'string', minLength: 1 } as const
const share = { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 } as const
const count = { type: 'integer', minimum: 0, maximum: 100_000 } as const
const duration = { type: 'number', exclusiveMinimum: 0 } as const

/** Percentiles as PostHog names them. */
const bounds = { lower_bound_percentile: share, upper_bound_percentile: share, ignore_zeros: { type: 'boolean' } } as const
const purpose = {
  name: { type: 'string' },
  role: { type: 'string', enum: ROLES },
  goal: { type: 'string', enum: ['increase', 'decrease'] },
  margin: { type: 'number', exclusiveMinimum: 0, maximum: 100 }
} as const

// Conditions, which are `where` and `properties`, have a reader of their own.
const source = { event: text, where: {} } as const
const step = { type: ['string', 'object'], minLength: 1, required: ['event'], properties: source, additionalProperties: false } as const
const part = bodyOf({ ...source, property: text, ...bounds }, 'event')

const own = {
  ...purpose, ...source, ...bounds,
  kind: {},
  // The mask of steps has 32 bits; nobody reads longer funnels.
  steps: { type: 'array', minItems: 1, maxItems: 20, items: step },
  property: text,
  window_days: duration,
  quantile: share,
  numerator: part,
  denominator: part,
  start_event: step,
  completion_event: step,
  retention_window_start: count,
  retention_window_end: count,
  retention_window_unit: { type: 'string', enum: UNITS },
  start_handling: { type: 'string', enum: ['first_seen', 'last_seen'] }
} as const

type Field = keyof typeof own
type OwnFields = Value<{ type: 'object', properties: typeof own }>

function readerOf (required: Field[], ...others: Field[]) {
  const fields: Field[] = ['kind', 'name', 'window_days', 'role', 'goal', 'margin', ...required, ...others]
  const properties = Object.fromEntries(fields.map((name) => [name, own[name]]))
  return createReader(schemaOf<OwnFields>({ type: 'object', required, properties, additionalProperties: false }))
}

const OF_VALUES = ['event', 'where', 'steps', 'lower_bound_percentile', 'upper_bound_percentile', 'ignore_zeros', 'quantile'] as const

const BESIDE: readonly string[] = Object.keys(purpose)
const OF_INSIGHT: readonly string[] = [...BESIDE, ...Object.keys(bounds), 'quantile']

/** @throws {HttpError} 400 naming a field of a metric that stands beside it, where it would be ignored. */
export function refuseStray (path: string, fields: object, form: 'metric' | 'insight'): void {
  const known = form === 'metric' ? BESIDE : OF_INSIGHT
  const stray = Object.keys(fields).find((name) => Object.hasOwn(own, name) && !known.includes(name))
  if (stray !== undefined) throw invalidField(`${path}__${stray}`, `${stray} belongs inside metric, in Millrace's form.`, 'unknown_field')
}

/** By the kind of metric. An event that would be ignored, or any other field, is refused by name. */
export const OWN_READERS: Record<MetricKind, ReturnType<typeof readerOf>> = {
  funnel: readerOf([], 'event', 'where', 'steps'),
  count: readerOf([], ...OF_VALUES),
  sum: readerOf(['property'], ...OF_VALUES),
  mean: readerOf(['property'], ...OF_VALUES),
  ratio: readerOf(['numerator', 'denominator']),
  retention: readerOf(
    ['start_event', 'completion_event'], 'retention_window_start', 'retention_window_end', 'retention_window_unit', 'start_handling')
}

/** People who sent the event at all are a funnel of one step. */
export const KIND_OF_MATH = {
  total: 'count', dau: 'funnel', unique_users: 'funnel', sum: 'sum', avg: 'mean'
} as const satisfies Record<string, MetricKind>

const insightEvent = {
  type: 'object',
  required: ['id'],
  properties: {
    id: { type: ['string', 'null'], minLength: 1 },
    type: { type: 'string', enum: ['events'] },
    order: { type: ['number', 'null'] },
    math: { type: 'string', enum: ['total', 'dau', 'unique_users', 'sum', 'avg'] },
    math_property: { type: ['string', 'null'], minLength: 1 },
    properties: {}
  }
} as const

/** As clients have always written them, with much that only concerns their pictures. */
export const readInsight = createReader(optional({
  ...purpose, ...bounds,
  insight: { type: 'string', enum: ['FUNNELS', 'TRENDS'] },
  events: { type: 'array', maxItems: 20, items: insightEvent },
  actions: { type: 'array', maxItems: 0 },
  quantile: share,
  funnel_window_days: duration,
  funnel_window_interval: duration,
  funnel_window_interval_unit: { type: 'string', enum: UNITS },
  funnel_order_type: { type: 'string', enum: ['ordered'] },
  exclusions: { type: 'array', maxItems: 0 }
}))
