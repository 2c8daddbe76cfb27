import { areComparable, estimateSampleSize } from '../../../engines/statistics/sample-size.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { object } from '../../http/json-schema.ts'
import { describeBaseline } from './compute-results.ts'
import { accumulateDays } from './daily-series.ts'
import { lookbackOf } from './describe-adjustments.ts'
import { type MetricScope, queryMetric } from './query-metric.ts'
import type { Metric } from './read-metric.ts'

const EVERYBODY = 'everybody'
const DEFAULT_LOOKBACK_SECONDS = 14 * 86_400

const nullableInteger = { type: ['integer', 'null'] } as const
const nullableNumber = { type: ['number', 'null'] } as const
const size = object({
  total: { ...nullableInteger, description: 'People across all variants; null if no sample size suffices.' },
  per_variant: { type: ['array', 'null'], items: { type: 'integer' } },
  running_days: nullableInteger
})

export const planSchema = object({
  days: { type: 'integer' },
  population: { type: 'string', enum: ['exposed', 'active'], description: 'exposed: people with the exposure event; active: all active people, if nobody has that event.' },
  people: { type: 'integer' },
  people_per_day: { type: 'number', description: 'Average since the first day on which there were any.' },
  baseline: { ...nullableNumber, description: 'Value of the metric for these people.' },
  minimum_detectable_effect: { type: 'number', description: 'In percent.' },
  variance_reduction: { ...nullableNumber, description: 'Share of the variance that CUPED would remove; null if not applicable.' },
  without_cuped: { ...size, type: ['object', 'null'] },
  with_cuped: { ...size, type: ['object', 'null'] }
})

interface PlanOptions {
  metric: Metric
  /** Of the last days, with the exposure event of the experiment. */
  scope: MetricScope
  /** Shares of the variants, the baseline's first. */
  weights: number[]
  /** In percent. */
  effect: number
}

/**
 * Says how many people an experiment would need and how long it would run, by what people did lately. Their first
 * exposure in the span (or first event) stands for the one to come.
 */
export async function planExperiment (clickhouse: ClickHouse, { metric, scope, weights, effect }: PlanOptions) {
  const lookback = scope.exposure.lookback || DEFAULT_LOOKBACK_SECONDS
  const measure = async (where: string) => {
    const planned = { ...scope, variants: [EVERYBODY], exposure: { ...scope.exposure, where, variant: `'${EVERYBODY}'`, lookback } }
    const measurement = await queryMetric(clickhouse, planned, metric)
    const last = accumulateDays(metric, measurement, {
      keys: planned.variants, lookback: lookbackOf(planned, metric)
    }).at(-1)
    const { changes, days } = measurement
    const firstDay = Math.min(...changes.map(({ day }) => day))
    return {
      state: last?.variants[0],
      varianceReduction: last?.varianceReduction ?? null,
      daysWithPeople: days.last - days.first - firstDay + 1
    }
  }
  const exposed = await measure(scope.exposure.where)
  const isExposed = (exposed.state?.exposed ?? 0) > 0
  const { state, varianceReduction, daysWithPeople } = isExposed ? exposed : await measure('1')
  const days = (scope.until.getTime() - scope.since.getTime()) / 86_400_000
  const people = state?.exposed ?? 0
  // A project, or a flag, that is younger than the span has had fewer days to meet people.
  const perDay = people === 0 ? 0 : people / Math.min(days, daysWithPeople)
  const expectation = describeBaseline(metric.kind, state)
  const estimate = (factor: number) => {
    if (expectation === null || people === 0 || !areComparable(weights) || !Number.isFinite(factor)) return null
    const { total, perVariant, runningDays } = estimateSampleSize(expectation, {
      minimumDetectableEffect: effect / 100, weights, exposedPerDay: perDay, varianceFactor: factor
    })
    return { total, per_variant: perVariant, running_days: runningDays }
  }
  // What CUPED left is what the adjusted values vary by; without it they vary by so much more.
  return {
    days,
    population: isExposed ? 'exposed' : 'active',
    people,
    people_per_day: perDay,
    baseline: expectation?.baseline ?? null,
    minimum_detectable_effect: effect,
    variance_reduction: varianceReduction,
    without_cuped: estimate(1 / (1 - (varianceReduction ?? 0))),
    with_cuped: varianceReduction === null ? null : estimate(1)
  }
}
