/**
 * Experiments of PostHog as Millrace has them. Shapes: `frontend/src/queries/schema/schema-general.ts` of PostHog
 * (`ExperimentMetric`, `ExperimentExposureCriteria`), and the older `filters` of an insight, read 2026-11-26.
 */
import { fieldsOf, itemsOf } from '../fields.ts'
import { type Fields, refuse } from './posthog-project.ts'

/** An experiment as the management API takes it. */
export interface CarriedExperiment {
  name: string
  description: string
  feature_flag_key: string
  start_date: string | null
  end_date: string | null
  parameters: Record<string, unknown>
  filters: Record<string, unknown>
  secondary_metrics: unknown[]
  archived: boolean
}

/** Of `parameters`, what results read here. The shape of the flag is the flag's. */
const PARAMETERS = ['minimum_detectable_effect', 'recommended_sample_size']

/**
 * @param flags  Keys of the flags that were carried over, by the key in PostHog.
 * @throws {NotCarriedOverError} for a flag or a metric that is not carried over.
 */
export function toExperiment (experiment: Fields, flags: ReadonlyMap<string, string>): CarriedExperiment {
  const key = String(experiment['feature_flag_key'])
  const flag = flags.get(key) ?? refuse(`its flag ${key} was not imported`)
  const text = (name: string): string | null => typeof experiment[name] === 'string' ? experiment[name] : null
  const { exposure_config: exposure, multiple_variant_handling: handling } = fieldsOf(experiment['exposure_criteria'])
  if ((exposure ?? null) !== null && fieldsOf(exposure)['event'] !== '$feature_flag_called') refuse('custom exposure event')
  if (handling === 'first_seen') refuse('assigns people who saw several variants to the first one')
  const parameters = fieldsOf(experiment['parameters'])
  const [primary, ...further] = toMetrics(experiment)
  return {
    name: text('name') ?? key,
    description: text('description') ?? '',
    feature_flag_key: flag,
    start_date: text('start_date'),
    end_date: text('end_date'),
    parameters: Object.fromEntries(PARAMETERS.filter((name) => typeof parameters[name] === 'number').map((name) => [name, parameters[name]])),
    filters: primary ?? {},
    secondary_metrics: further,
    archived: experiment['archived'] === true
  }
}

/** The metrics, the primary ones first. */
function toMetrics (experiment: Fields): Record<string, unknown>[] {
  const { metrics, metrics_secondary: others, saved_metrics: named, secondary_metrics: older } = experiment
  const saved = itemsOf(named).map((metric) => {
    const { name, metadata, query } = fieldsOf(metric)
    return { isPrimary: fieldsOf(metadata)['type'] !== 'secondary', query: { name, ...fieldsOf(query) } }
  })
  const { primary = [], secondary = [] } = Object.groupBy(saved, ({ isPrimary }) => isPrimary ? 'primary' : 'secondary')
  const newer = [
    ...itemsOf(metrics), ...primary.map(({ query }) => query),
    ...itemsOf(others), ...secondary.map(({ query }) => query)
  ].map((metric) => toMetric(fieldsOf(metric)))
  const filters = fieldsOf(experiment['filters'])
  if (newer.length > 0 || !Array.isArray(filters['events'])) return newer
  // The form of an insight means the same here.
  return [filters, ...itemsOf(older).map(fieldsOf)].map((metric) => {
    if (itemsOf(fieldsOf(metric['filters'] ?? metric)['actions']).length > 0) refuse('a metric uses actions')
    return metric
  })
}

/** Seconds of the units of a window. */
const SECONDS: Record<string, number> = { second: 1, minute: 60, hour: 3600, day: 86400, week: 604800, month: 2592000 }

function toMetric (metric: Fields): Record<string, unknown> {
  const { metric_type: type, name, conversion_window: window = null, conversion_window_unit: unit = 'day' } = metric
  const called = typeof name === 'string' && name !== '' ? `the metric "${name}"` : 'a metric'
  for (const field of ['lower_bound_percentile', 'upper_bound_percentile', 'ignore_zeros']) {
    if (metric[field] !== undefined && metric[field] !== null && metric[field] !== false) refuse(`${called} uses ${field}`)
  }
  const seconds = SECONDS[String(unit)] ?? refuse(`${called} has a conversion window in an unknown unit: ${String(unit)}`)
  const shared = {
    ...typeof name === 'string' && { name },
    ...typeof window === 'number' && { window_days: window * seconds / 86_400 }
  }
  if (type === 'funnel') {
    if ((metric['funnel_order_type'] ?? 'ordered') !== 'ordered') refuse(`${called} is an unordered funnel`)
    return { metric: { ...shared, kind: 'funnel', steps: itemsOf(metric['series']).map((step) => toStep(fieldsOf(step), called)) } }
  }
  if (type !== 'mean') refuse(`${called} has the unsupported type ${String(type ?? metric['kind'])}`)
  const source = fieldsOf(metric['source'])
  const { math = 'total', math_property: property } = source
  const step = toStep(source, called)
  if (math === 'total') return { metric: { ...shared, kind: 'count', ...step } }
  if (math === 'sum') return { metric: { ...shared, kind: 'sum', property, ...step } }
  if (math === 'avg') return { metric: { ...shared, kind: 'mean', property, ...step } }
  return refuse(`${called} uses the unsupported aggregation ${String(math)}`)
}

function toStep ({ kind, event, properties }: Fields, called: string): Record<string, unknown> {
  if (kind !== 'EventsNode' || typeof event !== 'string') refuse(`${called} needs a single named event, not ${typeof kind === 'string' ? kind : 'an unknown source'}`)
  const where = itemsOf(properties).map((property) => {
    const { key, value, operator, type = 'event' } = fieldsOf(property)
    if (type !== 'event') refuse(`${called} filters on a property of type ${String(type)}`)
    if (/^(is_date|semver)/.test(String(operator))) refuse(`${called} uses the operator ${String(operator)}`)
    return { key, value, ...typeof operator === 'string' && { operator } }
  })
  return { event, ...where.length > 0 && { where } }
}
