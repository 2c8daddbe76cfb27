/**
 * Experiments of PostHog as Millrace has them. Shapes: `frontend/src/queries/schema/schema-general.ts` of PostHog
 * (`ExperimentMetric`, `ExperimentExposureCriteria`), and the older `filters` of an insight, read 2026-11-26.
 */
import { fieldsOf, itemsOf } from '../fields.ts'
import { type Fields, refuse } from './posthog-project.ts'

/** Of `parameters`, what results read here. The shape of the flag is the flag's. */
const PARAMETERS = ['minimum_detectable_effect', 'recommended_sample_size']

/**
 * An experiment as the management API takes it.
 *
 * @param flags  Keys of the flags that were carried over, by the key in PostHog.
 * @param notes  Gets a sentence for what is different here.
 * @throws {NotCarriedOverError} for a flag, a metric or a setting that is not carried over.
 */
export function toExperiment (
  experiment: Fields, flags: ReadonlyMap<string, string>, notes: string[]
) {
  const key = String(experiment['feature_flag_key'])
  const flag = flags.get(key) ?? refuse(`its flag ${key} was not imported`)
  const text = (name: string): string | null => typeof experiment[name] === 'string' ? experiment[name] : null
  const parameters = fieldsOf(experiment['parameters'])
  const [primary, ...further] = toMetrics(experiment)
  return {
    name: text('name') ?? key,
    description: text('description') ?? '',
    feature_flag_key: flag,
    start_date: text('start_date'),
    end_date: text('end_date'),
    parameters: {
      ...Object.fromEntries(PARAMETERS.filter((name) => typeof parameters[name] === 'number').map((name) => [name, parameters[name]])),
      ...toSettings(experiment, parameters, notes)
    },
    filters: primary ?? {},
    secondary_metrics: further,
    archived: experiment['archived'] === true
  }
}

/** What changes results, by the names of PostHog. What results would not obey is refused by its name. */
function toSettings (experiment: Fields, parameters: Fields, notes: string[]): Fields {
  const { exposure_config: config = null, multiple_variant_handling: handling = null, filterTestAccounts, ...criteria } = fieldsOf(experiment['exposure_criteria'])
  const { baseline_variant_key: baseline = null, cuped = null, method: _, version: __, timeseries: ___, ...stats } = fieldsOf(experiment['stats_config'])
  const rest = Object.entries({ ...criteria, ...stats, only_count_matured_users: experiment['only_count_matured_users'] })
  const [unknown] = rest.find(([, value]) => isSet(value)) ?? []
  if (unknown !== undefined) refuse(`it uses ${unknown}`)
  const { kind = 'ExperimentEventExposureConfig', event, properties } = fieldsOf(config)
  if (isSet(config) && (kind !== 'ExperimentEventExposureConfig' || typeof event !== 'string')) refuse('people are exposed by an action')
  if (filterTestAccounts === true) notes.push('test accounts count (filterTestAccounts)')
  const { custom_exposure_filter: filter = null, excluded_variants: excluded = null } = parameters
  return {
    ...isSet(excluded) && { excluded_variants: excluded },
    ...isSet(filter) && { custom_exposure_filter: filter },
    ...(isSet(config) || handling === 'first_seen') && {
      exposure_criteria: {
        ...isSet(config) && { exposure_config: { event, ...isSet(properties) && { properties: toConditions(properties, 'its exposure') } } },
        ...handling === 'first_seen' && { multiple_variant_handling: handling }
      }
    },
    ...(isSet(baseline) || fieldsOf(cuped)['enabled'] === true) && {
      stats_config: { ...isSet(baseline) && { baseline_variant_key: baseline }, ...fieldsOf(cuped)['enabled'] === true && { cuped } }
    }
  }
}

/** Whether a setting says anything. */
function isSet (value: unknown): boolean {
  return value !== undefined && value !== null && value !== false && (typeof value !== 'object' || Object.keys(value).length > 0)
}

/** The metrics, the primary ones first. */
function toMetrics (experiment: Fields): Record<string, unknown>[] {
  const { metrics, metrics_secondary: others, saved_metrics: named, secondary_metrics: older } = experiment
  const saved = itemsOf(named).map((metric) => {
    const { name, metadata, query } = fieldsOf(metric)
    return { isPrimary: fieldsOf(metadata)['type'] !== 'secondary', query: { name, ...fieldsOf(query) } }
  })
  const { primary = [], secondary = [] } = Object.groupBy(saved, ({ isPrimary }) => isPrimary ? 'primary' : 'secondary')
  const first = [...itemsOf(metrics), ...primary.map(({ query }) => query)].map((metric) => toMetric(fieldsOf(metric)))
  const newer = [
    ...first.map((metric, index) => index === 0 ? metric : { ...metric, role: 'primary' }),
    ...[...itemsOf(others), ...secondary.map(({ query }) => query)].map((metric) => toMetric(fieldsOf(metric)))
  ]
  if (first.length === 0 && newer.length > 0) newer.unshift({})
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
  for (const field of ['threshold', 'breakdownFilter']) if (isSet(metric[field])) refuse(`${called} uses ${field}`)
  const seconds = SECONDS[String(unit)] ?? refuse(`${called} has a conversion window in an unknown unit: ${String(unit)}`)
  const shared = {
    ...typeof name === 'string' && { name },
    ...typeof window === 'number' && window > 0 && { window_days: window * seconds / 86_400 },
    ...metric['goal'] === 'decrease' && { goal: 'decrease' }
  }
  if (type === 'funnel') {
    if ((metric['funnel_order_type'] ?? 'ordered') !== 'ordered') refuse(`${called} is an unordered funnel`)
    return { metric: { ...shared, kind: 'funnel', steps: itemsOf(metric['series']).map((step) => toStep(fieldsOf(step), called)) } }
  }
  if (type === 'retention') {
    const fields = ['retention_window_start', 'retention_window_end', 'retention_window_unit', 'start_handling'].map((field) => [field, metric[field]])
    const steps = Object.fromEntries(['start_event', 'completion_event'].map((field) => [field, toStep(fieldsOf(metric[field]), called)]))
    return { metric: { ...shared, kind: 'retention', ...steps, ...Object.fromEntries(fields.filter(([, value]) => value !== undefined)) } }
  }
  if (type === 'ratio') {
    const part = (name: string): Fields => {
      const { kind, property, ...step } = toValue(fieldsOf(metric[name]), called)
      if (kind === 'mean') refuse(`${called} has an average as its ${name}`)
      return { ...step, ...kind === 'sum' && { property }, ...toBounds(fieldsOf(metric[`${name}_outlier_handling`])) }
    }
    return { metric: { ...shared, kind: 'ratio', numerator: part('numerator'), denominator: part('denominator') } }
  }
  if (type !== 'mean') refuse(`${called} has the unsupported type ${String(type ?? metric['kind'])}`)
  return { metric: { ...shared, ...toValue(fieldsOf(metric['source']), called), ...toBounds(metric) } }
}

/** Percentiles that outliers are cut at; those at the ends cut nothing. */
function toBounds (fields: Fields): Fields {
  const bounds = ['lower_bound_percentile', 'upper_bound_percentile'].map((name) => [name, fields[name]] as const)
    .filter(([, value]) => typeof value === 'number' && value > 0 && value < 1)
  return { ...Object.fromEntries(bounds), ...bounds.length > 0 && fields['ignore_zeros'] === true && { ignore_zeros: true } }
}

function toValue (source: Fields, called: string): Fields {
  const { math = 'total', math_property: property } = source
  const step = toStep(source, called)
  if (math === 'total') return { kind: 'count', ...step }
  if (math === 'sum') return { kind: 'sum', property, ...step }
  if (math === 'avg') return { kind: 'mean', property, ...step }
  return refuse(`${called} uses the unsupported aggregation ${String(math)}`)
}

function toStep ({ kind, event, properties }: Fields, called: string): Record<string, unknown> {
  if (kind !== 'EventsNode' || typeof event !== 'string') refuse(`${called} needs a single named event, not ${typeof kind === 'string' ? kind : 'an unknown source'}`)
  const where = toConditions(properties, called)
  return { event, ...where.length > 0 && { where } }
}

function toConditions (properties: unknown, called: string): Fields[] {
  return itemsOf(properties).map((property) => {
    const { key, value, operator, type = 'event' } = fieldsOf(property)
    if (type !== 'event') refuse(`${called} filters on a property of type ${String(type)}`)
    if (/^(is_date|semver)/.test(String(operator))) refuse(`${called} uses the operator ${String(operator)}`)
    return { key, value, ...typeof operator === 'string' && { operator } }
  })
}
