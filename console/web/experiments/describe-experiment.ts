/** Experiments as the API answers them, and what they say in words. */
import type { Answer, Schema } from '../../api-types.ts'
import type { MeasuredMetric, MetricKind } from './describe-metric.ts'
import { formatCount, formatCounted, UNKNOWN } from '../format.ts'

export type Experiment = Schema<'Experiment'>
type ApiResults = Schema<'MetricResults'>
type ApiVariant = ApiResults['variants'][number]
type ApiDay = ApiResults['series'][number]['variants'][number]

export type Interval = [lower: number, upper: number]

export interface VariantResult extends Pick<ApiVariant, 'key' | 'exposed' | 'mean' | 'probability' | 'expected_loss'> {
  comparison: {
    absolute_lift: number
    relative_lift: number | null
    bayesian: { relative_interval: Interval | null, inner_relative_interval: Interval | null }
    sequential: { p_value: number | null, adjusted_p_value?: number | null, relative_interval: Interval | null }
  } | null
}

/** With the parts that the OpenAPI document leaves open. */
export interface Results extends Pick<ApiResults, 'kind' | 'baseline' | 'leader' | 'significant' | 'role' | 'correction' | 'adjustments' | 'guardrail'> {
  metric: MeasuredMetric
  significance_code: string
  variants: VariantResult[]
  exposures: {
    total: number
    multiple_variants: number
    multiple_variant_handling: 'exclude' | 'first_seen'
    sample_ratio: { mismatch: boolean, variants: { key: string, exposed: number, expected: number }[] } | null
  }
  sample_size: { total: number | null, remaining_days: number | null, minimum_detectable_effect: number } | null
  warnings: { detail: string }[]
  series: { day: string, variants: VariantOfDay[] }[]
}

export interface VariantOfDay extends Pick<ApiDay, 'key' | 'exposed' | 'relative_lift' | 'sequential_p_value' | 'missing_interval'> {
  sequential_absolute_interval: Interval | null
  sequential_relative_interval: Interval | null
}

export type MissingInterval = NonNullable<ApiDay['missing_interval']>

export interface ExperimentResults extends Omit<Answer<'/api/projects/{project_id}/experiments/{id}/results'>, 'result'> {
  result: Results
}

export interface SecondaryResults { analysis: Results[] }

/** Where an experiment is in its life. */
export function statusOf ({ start_date: start, end_date: end, archived }: Experiment, now: number): string {
  if (archived) return 'archived'
  if (start === null) return 'draft'
  if (Date.parse(start) > now) return 'planned'
  return end !== null && Date.parse(end) <= now ? 'ended' : 'running'
}

/** When what is measured was changed since the launch; empty when it was not. */
export function describeChanges (
  { measured }: { measured: { changes: { at: string, fields: string[] }[] } }, format: (at: string) => string
): string {
  return measured.changes.slice(0, -1).map(({ at, fields }) => `${fields.map((field) => FIELDS[field] ?? field).join(', ')} at ${format(at)}`).join('; ')
}

const FIELDS: Record<string, string> = {
  feature_flag: 'conditions of the flag', parameters: 'parameters', filters: 'the metric', secondary_metrics: 'secondary metrics'
}

/** How many are still needed, or why that is not known. */
export function describeProgress ({ sample_size: size, exposures }: Results): string {
  if (size === null) return 'The required sample size is unknown until the baseline has a value.'
  const effect = `a change of ${size.minimum_detectable_effect} %`
  if (size.total === null) return `No sample size would detect ${effect}.`
  const share = Math.min(100, Math.floor(100 * exposures.total / size.total))
  const rest = size.remaining_days === null || size.remaining_days <= 0 ? '' : `; about ${formatCounted(size.remaining_days, 'day')} to go`
  return `${formatCount(exposures.total)} of ${formatCount(size.total)} people needed to detect ${effect}: ${share} %${rest}.`
}

/** What was done to the values and p-values, in sentences; empty when nothing was. */
export function describeAdjustments ({ kind, adjustments, correction, guardrail }: Results): string {
  const { cuped, winsorized, quantile } = adjustments
  const parts: string[] = []
  if (quantile !== null) parts.push(`The ${formatPercent(quantile)} quantile over people is compared.`)
  if (cuped !== null) {
    const share = `${formatPercent(cuped.share_with_history)} of the people have a history of ${formatCounted(cuped.lookback_days, 'day')}`
    parts.push(cuped.applied ? `CUPED removed ${formatPercent(cuped.variance_reduction)} of the variance: ${share}.` : `CUPED was not applied: ${cuped.reason === 'quantile' ? 'this is a quantile' : `${share}, too few`}.`)
  }
  for (const [name, bounds] of Object.entries(winsorized ?? {})) {
    if (bounds !== null) parts.push(`${name === 'value' ? 'Values' : 'Denominators'} are cut to ${formatMetric(kind, bounds.lower)} to ${formatMetric(kind, bounds.upper)}.`)
  }
  if (correction !== null && correction.metrics > 1) parts.push(`P-values are corrected for ${formatCounted(correction.comparisons, 'comparison')} of ${correction.metrics} primary metrics (Holm).`)
  for (const { key, at_the_end: end, at_any_time: now } of guardrail?.variants ?? []) {
    parts.push(`Guardrail of ${guardrail?.margin} % for ${key}: ${now} now, ${end} if the experiment is over.`)
  }
  return parts.join(' ')
}

/** A value of the metric: a share for funnels, else a number. */
export function formatMetric (kind: MetricKind, value: number | null): string {
  if (value === null) return UNKNOWN
  return kind === 'funnel' || kind === 'retention' ? formatPercent(value) : String(Number(value.toPrecision(4)))
}

/** `+12.3 %`; a share without sign when `isSigned` is false. */
export function formatPercent (share: number | null, isSigned = false): string {
  if (share === null) return UNKNOWN
  const percent = 100 * share
  const digits = Math.abs(percent) < 10 ? 2 : 1
  return `${isSigned && percent > 0 ? '+' : ''}${percent.toFixed(digits)} %`
}

/** `+2.00 to +12.0 %`. */
export function formatInterval (interval: Interval | null): string {
  return interval === null ? UNKNOWN : `${formatPercent(interval[0], true).replace(' %', '')} to ${formatPercent(interval[1], true)}`
}

/** The bar of a variant against the baseline, in shares of the baseline. */
export interface Bar {
  key: string
  lift: number
  credible: Interval
  inner: Interval | null
  /** Holds at every look together. */
  sequential: Interval | null
}

/** The bars, and the span that has them all and zero, with some room. */
export function layOutBars ({ variants }: Results): { bars: Bar[], from: number, to: number } {
  const bars = variants.flatMap(({ key, comparison }): Bar[] => {
    const lift = comparison?.relative_lift ?? null
    const credible = comparison?.bayesian.relative_interval ?? null
    if (comparison === null || lift === null || credible === null) return []
    const { bayesian: { inner_relative_interval: inner }, sequential: { relative_interval: sequential } } = comparison
    return [{ key, lift, credible, inner, sequential }]
  })
  // The sequential interval may be many times wider; it is cut rather than making all else a dot.
  const ends = [0, ...bars.flatMap(({ credible }) => credible)]
  const [low, high] = [Math.min(...ends), Math.max(...ends)]
  const room = Math.max((high - low) * 0.25, 0.01)
  return { bars, from: low - room, to: high + room }
}
