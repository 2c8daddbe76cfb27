import type { DayState } from './daily-series.ts'
import { columnsOf } from './metric-columns.ts'
import type { Measurement, MetricScope } from './query-metric.ts'
import type { Metric } from './read-metric.ts'

/** How far before the exposure a metric is read, in seconds: a quantile has no covariates. */
export function lookbackOf ({ exposure }: MetricScope, { quantile }: Metric): number {
  return quantile === null ? exposure.lookback : 0
}

/** What was done to the values before they were compared. */
export function describeAdjustments (
  metric: Metric, scope: MetricScope, { caps }: Measurement, last: DayState | undefined
) {
  const { quantile } = metric
  const isAsked = scope.exposure.lookback > 0
  const states = last?.variants ?? []
  const people = states.reduce((total, { measured }) => total + measured, 0)
  const withHistory = states.reduce((total, { moments }) => total + (moments.sums.at(-1) ?? 0), 0)
  const reduction = last?.varianceReduction ?? null
  const [value = null, denominator = null] = columnsOf(metric, 0).map(({ caps: cut }, at) =>
    cut === null ? null : { lower: caps[2 * at] ?? null, upper: caps[2 * at + 1] ?? null })
  return {
    cuped: isAsked
      ? {
          applied: reduction !== null,
          reason: reduction !== null ? null : quantile !== null ? 'quantile' as const : 'too_little_history' as const,
          lookbackDays: scope.exposure.lookback / 86_400,
          shareWithHistory: quantile === null && people > 0 ? withHistory / people : null,
          varianceReduction: reduction
        }
      : null,
    winsorized: value === null && denominator === null ? null : { value, denominator },
    quantile
  }
}
