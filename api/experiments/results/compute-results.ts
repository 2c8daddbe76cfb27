import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type Experiment } from '../experiment.ts'
import { type Variant } from '../../flags/flag-definition.ts'
import { checkSampleRatio, type SampleRatioCheck } from '../statistics/check-sample-ratio.ts'
import { accumulateDays, MULTIPLE, type VariantState } from './accumulate-days.ts'
import { analyseDays } from './analyse-days.ts'
import { type Metric } from './metric.ts'
import { type MetricResults } from './metric-results.ts'
import { planSampleSize } from './plan-sample-size.ts'
import { queryMetric, type MetricScope } from './query-metric.ts'

const DAY_MS = 86_400_000

export interface ComputeOptions {
  experiment: Experiment
  metric: Metric
  scope: MetricScope
  /** Of the flag, in its order. */
  variants: Variant[]
}

/**
 * Measures one metric (`read-metric.ts`) of an experiment (`find-scope.ts`) and says what it means:
 *
 * 1. one query: what changed on which day, by variant   query-metric.ts
 * 2. add the days up to how things stood on each        accumulate-days.ts
 * 3. judge each day; the last one is the result         analyse-days.ts, ../statistics/
 * 4. check the split, and say how long it has to run    ../statistics/check-sample-ratio.ts, plan-sample-size.ts
 *
 * @throws {HttpError} 503 when ClickHouse is unavailable or too busy.
 */
export async function computeResults (clickhouse: ClickHouse, options: ComputeOptions): Promise<MetricResults> {
  const { experiment, metric, scope, variants } = options
  const changes = await queryMetric(clickhouse, scope, metric)

  const days = accumulateDays(changes, scope.variants, localDay(scope.until, scope.timezone))
  const baseline = scope.variants.includes('control') ? 'control' : scope.variants[0] ?? ''
  const { result, series } = analyseDays(days, {
    kind: metric.kind, baseline, plannedSampleSize: readPlannedSize(experiment.parameters)
  })
  const states = days.at(-1)?.variants ?? []
  const exposed = states.reduce((total, state) => total + state.exposed, 0)
  return {
    ...result,
    insight: metric.kind === 'funnel' ? 'FUNNELS' : 'TRENDS',
    metric,
    variants: result.variants.map((variant, index) => ({ ...variant, steps: states[index]?.steps ?? [] })),
    exposures: {
      total: exposed,
      multipleVariants: changes
        .filter(({ variant }) => variant === MULTIPLE)
        .reduce((total, change) => total + change.exposed, 0),
      sampleRatio: checkSplit(states, variants)
    },
    sampleSize: planSampleSize({
      kind: metric.kind,
      baseline: states.find(({ key }) => key === baseline) as VariantState,
      weights: [...variants].sort((a, b) => Number(b.key === baseline) - Number(a.key === baseline)).map(weightOf),
      parameters: experiment.parameters,
      exposed,
      daysRunning: (scope.until.getTime() - scope.since.getTime()) / DAY_MS
    }),
    series
  }
}

function checkSplit (states: readonly VariantState[], variants: readonly Variant[]): SampleRatioCheck | null {
  if (!variants.some((variant) => weightOf(variant) > 0)) return null
  return checkSampleRatio(variants.map((variant) => ({
    key: variant.key, weight: weightOf(variant), exposed: states.find(({ key }) => key === variant.key)?.exposed ?? 0
  })))
}

function weightOf ({ rollout_percentage: percentage }: Variant): number {
  return Math.max(0, percentage)
}

/** The sequential method must be tuned by the plan, never by the data. */
function readPlannedSize ({ recommended_sample_size: size }: Record<string, unknown>): number | undefined {
  return typeof size === 'number' && size >= 1 && Number.isFinite(size) ? size : undefined
}

/** The day of an instant in a time zone, as `YYYY-MM-DD`. */
function localDay (instant: Date, timeZone: string): string {
  return new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(instant)
}
