import { invalidField } from '../../../engines/errors.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { type Variant, variantsOfFlag } from '../../../engines/flags/flag-definition.ts'
import type { Experiment } from '../experiment.ts'
import { checkSampleRatio, type SampleRatioCheck } from '../../../engines/statistics/sample-ratio.ts'
import { readGroupTypeIndex } from '../experiment-flag.ts'
import { type AnalysisSettings, readAnalysisSettings } from '../analysis-settings.ts'
import { findKeptFlag } from '../experiment-versions.ts'
import { areComparable, estimateSampleSize, type MetricExpectation, type SampleSizeGoal } from '../../../engines/statistics/sample-size.ts'
import { type MetricKind, sampleVariance } from '../../../engines/statistics/variant-statistics.ts'
import { accumulateDays, analyseDays, type VariantState } from './daily-series.ts'
import { placesIn, readUsedCohorts } from '../../questions/used-cohorts.ts'
import { describeAdjustments, lookbackOf } from './describe-adjustments.ts'
import { describeExposure } from './describe-exposure.ts'
import { judgeGuardrail } from './judge-guardrail.ts'
import type { Metric } from './read-metric.ts'
import { findMetricWarnings } from './metric-warnings.ts'
import { type Measurement, type MetricScope, queryMetric } from './query-metric.ts'

/** An experiment that has begun. */
export type LaunchedExperiment = Experiment & { start_date: Date }

/**
 * Lets only what has begun pass, before anything else is said of it: a draft may still lack its metric.
 *
 * @throws {HttpError} 400 `not_launched` for a draft, and for a start in the future.
 */
export function requireLaunched (experiment: Experiment, now: Date): LaunchedExperiment {
  const { start_date: start } = experiment
  if (start !== null && start <= now) return { ...experiment, start_date: start }
  throw invalidField('start_date', 'Experiment has not been launched yet.', 'not_launched')
}

/**
 * Where and when to look for the events of an experiment: by the flag as it was kept, whatever became of it since.
 *
 * @throws {HttpError} 400 for a flag that lost its variants, and for a group type nobody has sent.
 */
export async function findScope (
  sql: Sql, projectId: number, experiment: LaunchedExperiment, now: Date
): Promise<Omit<ComputeOptions, 'metric'>> {
  // Launched by a process of the version before, perhaps, which keeps nothing.
  const { key, filters } = await findKeptFlag(sql, experiment.id) ?? experiment.feature_flag
  const settings = readAnalysisSettings(experiment.parameters)
  await readUsedCohorts(sql, projectId, placesIn(settings.exposure?.where, 'parameters__exposure_criteria__exposure_config__properties'))
  const all = variantsOfFlag(filters)
  if (all.length < 2) {
    throw invalidField('feature_flag', 'Feature flag must have at least 2 variants (control and at least one test variant)')
  }
  const unknown = settings.excluded.find((excluded) => !all.some((variant) => variant.key === excluded))
  if (unknown !== undefined) throw invalidField('parameters__excluded_variants', `excluded_variants names "${unknown}", which is no variant of the flag.`)
  const variants = all.filter(({ key: variant }) => !settings.excluded.includes(variant))
  if (variants.length < 2) throw invalidField('parameters__excluded_variants', 'excluded_variants must leave two variants to compare.')
  const index = readGroupTypeIndex(experiment.parameters) ?? readGroupTypeIndex(Object(filters))
  const [row] = await sql<{ timezone: string, group_type: string | null }[]>`
    SELECT p.timezone, g.group_type
    FROM projects p LEFT JOIN group_types g ON g.project_id = p.id AND g.group_type_index = ${index ?? null}
    WHERE p.id = ${projectId}`
  if (index !== undefined && row?.group_type === null) {
    throw invalidField('parameters__aggregation_group_type_index', `The project has no group type ${index}.`)
  }
  // Of ClickHouse's dates none is older.
  const since = new Date(Math.max(0, experiment.start_date.getTime()))
  const until = experiment.end_date !== null && experiment.end_date < now ? experiment.end_date : now
  const keys = variants.map((variant) => variant.key)
  const { effect, plannedSize } = settings
  return {
    variants,
    baseline: chooseBaseline(settings, keys),
    effect,
    plannedSize,
    scope: {
      projectId,
      flagKey: key,
      variants: keys,
      exposure: {
        ...describeExposure(settings.exposure, key, projectId),
        isFirstSeen: settings.isFirstSeen,
        lookback: settings.lookbackDays * DAY_MS / 1000
      },
      groupType: row?.group_type ?? null,
      since,
      until: until < since ? since : until,
      timezone: row?.timezone ?? 'UTC'
    }
  }
}

function chooseBaseline ({ baseline }: AnalysisSettings, keys: readonly string[]): string {
  if (baseline === null) return keys.includes('control') ? 'control' : keys[0] ?? ''
  if (keys.includes(baseline)) return baseline
  throw invalidField('parameters__stats_config__baseline_variant_key', `baseline_variant_key must be one of the variants ${keys.join(', ')}.`)
}

const DAY_MS = 86_400_000

interface ComputeOptions extends Pick<AnalysisSettings, 'effect' | 'plannedSize'> {
  baseline: string
  metric: Metric
  scope: MetricScope
  /** Of the flag, in its order. */
  variants: Variant[]
}

/**
 * Measures one metric of an experiment and says what it means:
 *
 * 1. one query: who was new when, and the values, by variant   query-metric.ts
 * 2. put together how things stood on each day                 daily-series.ts
 * 3. judge each day; the last one is the result                daily-series.ts, engines/statistics/
 * 4. where nobody has a value: were there such events at all?  metric-warnings.ts
 * 5. check the split, and say how long it has to run           engines/statistics/
 *
 * @throws {HttpError} 503 when ClickHouse is unavailable or too busy.
 */
export async function computeResults (
  clickhouse: ClickHouse, { metric, scope, variants, baseline, effect, plannedSize }: ComputeOptions
) {
  const measurement = await queryMetric(clickhouse, scope, metric)

  const days = accumulateDays(metric, measurement, { keys: scope.variants, lookback: lookbackOf(scope, metric) })
  const { result, series } = await analyseDays(days, {
    kind: metric.kind, baseline,
    options: {
      isIncreaseGood: metric.isIncreaseGood, ...plannedSize !== undefined && { sequentialTunedFor: plannedSize }
    }
  })
  const last = days.at(-1)
  const states = last?.variants ?? []
  const exposed = states.reduce((total, state) => total + state.exposed, 0)
  const daysRunning = (scope.until.getTime() - scope.since.getTime()) / DAY_MS
  return {
    ...result,
    // The word of the reference's clients for the kind.
    insight: metric.kind === 'funnel' ? 'FUNNELS' : 'TRENDS',
    metric,
    variants: result.variants.map((variant, index) => ({ ...variant, steps: states[index]?.steps ?? [] })),
    exposures: {
      total: exposed,
      multipleVariants: measurement.changes.reduce((total, { sawSeveral }) => total + sawSeveral, 0),
      multipleVariantHandling: scope.exposure.isFirstSeen ? 'first_seen' : 'exclude',
      sampleRatio: checkSplit(states, variants)
    },
    sampleSize: planSampleSize(describeBaseline(metric.kind, states.find(({ key }) => key === baseline)), effect, {
      weights: weightsOf(variants, baseline),
      exposedSoFar: exposed,
      exposedPerDay: daysRunning > 0 ? exposed / daysRunning : 0
    }),
    role: metric.role ?? 'secondary',
    // Of primary metrics: `correctFamily`.
    correction: NOT_CORRECTED,
    adjustments: describeAdjustments(metric, scope, measurement, last),
    guardrail: judgeGuardrail(metric, result),
    warnings: await findMetricWarnings(clickhouse, {
      scope, metric, reached: countReached(metric, measurement, states)
    }),
    series
  }
}

const NOT_CORRECTED: { method: 'holm', metrics: number, comparisons: number } | null = null

/** Everything the API tells about one metric of an experiment; field names turn to snake_case in the answer. */
export type MetricResults = Awaited<ReturnType<typeof computeResults>>

/** People who reached each step, or both sums of a ratio, over all variants; people with any value for other kinds. */
function countReached (metric: Metric, { blocks }: Measurement, states: readonly VariantState[]): number[] {
  const { kind, steps, isRatio } = metric
  if (kind !== 'funnel' && !isRatio) return [blocks.reduce((total, { people }) => total + people, 0)]
  const reachedOf = (state: VariantState): number[] => isRatio ? state.moments.sums : state.steps
  return steps.map((_, index) => states.reduce((total, state) => total + (reachedOf(state)[index] ?? 0), 0))
}

function checkSplit (states: readonly VariantState[], variants: readonly Variant[]): SampleRatioCheck | null {
  if (!variants.some((variant) => weightOf(variant) > 0)) return null
  return checkSampleRatio(variants.map((variant) => ({
    key: variant.key, weight: weightOf(variant), exposed: states.find(({ key }) => key === variant.key)?.exposed ?? 0
  })))
}

/** Shares of the variants, the baseline's first. */
export function weightsOf (variants: readonly Variant[], baseline: string): number[] {
  return [...variants].sort((a, b) => Number(b.key === baseline) - Number(a.key === baseline)).map(weightOf)
}

function weightOf ({ rollout_percentage: percentage }: Variant): number {
  return Math.max(0, percentage)
}

/**
 * How many people the experiment needs, judged by the baseline as it is so far.
 *
 * @returns null while the baseline says nothing, or the shares allow no comparison.
 */
function planSampleSize (
  expectation: MetricExpectation | null, effect: number,
  goal: Pick<SampleSizeGoal, 'exposedSoFar' | 'exposedPerDay'> & { weights: number[] }
) {
  if (expectation === null || !areComparable(goal.weights)) return null
  const size = estimateSampleSize(expectation, { ...goal, minimumDetectableEffect: effect / 100 })
  return { ...size, minimumDetectableEffect: effect }
}

/** What the baseline says of the metric; null while that is nothing. */
export function describeBaseline (kind: MetricKind, state: VariantState | undefined): MetricExpectation | null {
  if (state === undefined) return null
  const { measured, sum, adjusted } = state
  if (measured === 0 || adjusted === null) return null
  // Whatever was done to the values: what counts is how much the estimate varies for one person.
  if (adjusted !== undefined) return { kind: 'mean', baseline: adjusted.mean, standardDeviation: Math.sqrt(adjusted.squaredError * measured) }
  const mean = sum / measured
  if (kind === 'funnel') return { kind, baseline: mean }
  if (measured < 2) return null
  const variance = sampleVariance(state)
  if (kind === 'count') return mean > 0 ? { kind, baseline: mean, dispersion: Math.max(1, variance / mean) } : null
  return { kind: 'mean', baseline: mean, standardDeviation: Math.sqrt(variance) }
}
