/** What else can be said about a metric: outliers, quantiles, what it is for, and when people are retained. */
import { invalidField } from '../../../engines/errors.ts'
import type { MetricKind } from '../../../engines/statistics/variant-statistics.ts'

/** Percentiles over all variants together, as shares; null is no bound. */
export interface Caps {
  lower: number | null
  upper: number | null
  /** The upper percentile is that of the values that are not zero. */
  ignoresZeros: boolean
}

export const ROLES = ['primary', 'secondary', 'guardrail'] as const

const UNITS = ['second', 'minute', 'hour', 'day', 'week', 'month'] as const

/** Which event of a person starts, and in which window after it they come back. */
interface Retention {
  from: number
  to: number
  unit: typeof UNITS[number]
  /** The last start event of a person counts, not the first. */
  isLastSeen: boolean
}

export interface MetricOptions {
  caps: Caps | null
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

export const NO_OPTIONS: MetricOptions = {
  caps: null, quantile: null, retention: null, role: null, isIncreaseGood: true, margin: 0
}

type Fields = Record<string, unknown>

/** @throws {HttpError} 400 naming an option that is not valid, or not for this kind of metric. */
export function readOptions (path: string, fields: Fields, kind: MetricKind): MetricOptions {
  const { quantile = null, role = null, goal = null, margin = null } = fields
  const caps = readCaps(path, fields)
  const isPlain = kind === 'count' || kind === 'sum' || kind === 'mean'
  if (caps !== null && !isPlain) throw invalidField(`${path}__upper_bound_percentile`, `Outliers of a ${kind} cannot be cut here; those of a ratio are cut in its numerator and denominator.`)
  if (quantile !== null && !(isPlain && caps === null && isShare(quantile))) {
    throw invalidField(`${path}__quantile`, 'quantile must be a number above 0 and below 1, of a count, sum or mean without percentile bounds.')
  }
  const known = ROLES.find((each) => each === role) ?? null
  if (known !== role) throw invalidField(`${path}__role`, `role must be one of ${ROLES.join(', ')}.`)
  if (goal !== null && goal !== 'increase' && goal !== 'decrease') throw invalidField(`${path}__goal`, 'goal must be increase or decrease.')
  const isMargin = typeof margin === 'number' && margin > 0 && margin <= 100
  if (known === 'guardrail' ? !isMargin : margin !== null) {
    throw invalidField(`${path}__margin`, 'margin of a guardrail must be a number above 0 up to 100, in percent of the baseline; other metrics have none.')
  }
  return {
    ...NO_OPTIONS, caps, quantile: isShare(quantile) ? quantile : null, role: known,
    isIncreaseGood: goal !== 'decrease', margin: isMargin ? margin / 100 : 0
  }
}

function isShare (value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value < 1
}

/** Bounds of outliers by the names that PostHog has. */
export function readCaps (path: string, fields: Fields): Caps | null {
  const [lower, upper] = ['lower_bound_percentile', 'upper_bound_percentile'].map((name) => {
    const value = fields[name] ?? null
    if (value === null || isShare(value)) return value
    throw invalidField(`${path}__${name}`, `${name} must be a number above 0 and below 1, such as 0.99.`)
  })
  const { ignore_zeros: ignoresZeros = false } = fields
  if (typeof ignoresZeros !== 'boolean') throw invalidField(`${path}__ignore_zeros`, 'ignore_zeros must be true or false.')
  if (lower != null && upper != null && lower >= upper) throw invalidField(`${path}__lower_bound_percentile`, 'lower_bound_percentile must be below upper_bound_percentile.')
  return lower == null && upper == null ? null : { lower: lower ?? null, upper: upper ?? null, ignoresZeros }
}

export const RETENTION_FIELDS = [
  'start_event', 'completion_event', 'start_handling', 'retention_window_start', 'retention_window_end', 'retention_window_unit'
]

export function readRetention (path: string, fields: Fields): Retention {
  const { retention_window_start: from = 1, retention_window_end: to = 7, start_handling: handling = 'first_seen' } = fields
  const { retention_window_unit: asked = 'day' } = fields
  const isCount = (value: unknown): value is number => typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 100_000
  if (!isCount(from)) throw invalidField(`${path}__retention_window_start`, 'retention_window_start must be a whole number from 0.')
  if (!isCount(to) || to < from) throw invalidField(`${path}__retention_window_end`, 'retention_window_end must be a whole number, not below retention_window_start.')
  const unit = UNITS.find((known) => known === asked)
  if (unit === undefined) throw invalidField(`${path}__retention_window_unit`, `retention_window_unit must be one of ${UNITS.join(', ')}.`)
  if (handling !== 'first_seen' && handling !== 'last_seen') throw invalidField(`${path}__start_handling`, 'start_handling must be first_seen or last_seen.')
  return { from, to, unit, isLastSeen: handling === 'last_seen' }
}
