import type { MetricKind, VariantStatistics } from '../../../engines/statistics/variant-statistics.ts'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { analyseMetric, type MetricAnalysis, type MetricData, type VariantAnalysis } from '../../../engines/statistics/analyse-metric.ts'
import { isDeepStrictEqual } from 'node:util'
import { adjustMeans } from '../../../engines/statistics/adjust-means.ts'
import { alike, combine, type Moments, NOBODY } from '../../../engines/statistics/moments.ts'
import { zerosOf } from './metric-columns.ts'
import type { Metric } from './read-metric.ts'
import { formatDay, type Measurement } from './query-metric.ts'

/** The variant of people who saw several, in the answers of the queries. */
export const MULTIPLE = '$multiple'

/** Results of a variant up to the end of a day. */
export interface VariantState extends VariantStatistics {
  measured: number
  squaredDeviations: number
  /** People who reached each step of a funnel. */
  steps: number[]
  /** All values of all people. */
  moments: Moments
}

/** The state of all variants at the end of a day. */
export interface DayState {
  day: string
  variants: VariantState[]
  /** Share of the variance that CUPED took away; null without it. */
  varianceReduction: number | null
}

/** Each is analysed in full, some milliseconds of computing a variant; a picture has no room for more. */
const MAX_POINTS = 60

/**
 * Puts together how things stood at the end of each day, from the first exposure to the last day, without gaps; of a
 * quantile, only of the last day.
 *
 * @param keys  All variants, in the flag's order; the ones nobody saw stay at zero.
 */
export function accumulateDays (
  metric: Metric, measurement: Measurement, { keys, lookback }: { keys: readonly string[], lookback: number }
): DayState[] {
  const { days, changes, blocks } = measurement
  const changesByKey = Map.groupBy(changes, ({ variant, day }) => `${day} ${variant}`)
  const blocksByKey = new Map(blocks.map((block) => [`${block.level} ${block.block} ${block.variant}`, block]))
  const levels = [...new Set(blocks.map(({ level }) => level))]
  const stepCount = Math.max(0, ...changes.map(({ steps }) => steps.length))
  const nothing = zerosOf(metric, lookback, measurement.caps)
  const noSteps = Array<number>(stepCount).fill(0)
  const seen = keys.map((key) => ({ key, exposed: 0, steps: noSteps, had: { exposed: 0, converted: 0 } }))
  const last = days.last - days.first
  const first = changes.filter(({ variant }) => variant !== MULTIPLE)
    .reduce((earliest, { day }) => Math.min(earliest, day), last)
  const states: DayState[] = []
  for (let day = first; day <= last; day++) {
    const variants = seen.map((state): VariantState => {
      for (const { exposed, steps, had } of changesByKey.get(`${day} ${state.key}`) ?? []) {
        state.exposed += exposed
        state.steps = state.steps.map((people, index) => people + (steps[index] ?? 0))
        state.had = { exposed: state.had.exposed + had.exposed, converted: state.had.converted + had.converted }
      }
      const spreads = levels.flatMap((level) => blocksByKey.get(`${level} ${day >> level} ${state.key}`) ?? [])
      return describeState(metric.kind, state, spreads.reduce(combine, NOBODY), nothing)
    })
    // A day on which nothing happened shares the state of the day before, so that it is analysed once.
    const before = states.at(-1)?.variants
    const isSame = before !== undefined && isDeepStrictEqual(variants, before)
    states.push({ day: formatDay(days.first + day), variants: isSame ? before : variants, varianceReduction: null })
  }
  if (metric.quantile !== null) return states.slice(-1).map((state) => placeQuantiles(state, measurement))
  if (!metric.isRatio && lookback === 0) return states
  const adjusted = new Map(states.map(({ variants }) => [variants, adjustStates(variants, metric, lookback)]))
  return states.map((state) => ({ ...state, ...adjusted.get(state.variants) }))
}

interface Seen { key: string, exposed: number, steps: number[], had: { exposed: number, converted: number } }

/** @param nothing  The values of who sent nothing. */
function describeState (
  kind: MetricKind, { key, exposed, steps, had }: Seen, spread: Moments, nothing: readonly number[]
): VariantState {
  if (kind === 'funnel') {
    const sum = steps.at(-1) ?? 0
    const moments = countMoments(exposed, sum, had)
    return { key, exposed, measured: exposed, sum, squaredDeviations: 0, steps, moments }
  }
  // Who sent nothing counts with zero, but has no mean.
  const rest = kind === 'mean' ? 0 : exposed - spread.people
  const moments = combine(spread, alike(rest, nothing))
  const { people, sums: [sum = 0], products: [squaredDeviations = 0] } = moments
  return { key, exposed, measured: people, sum, squaredDeviations, steps, moments }
}

/** Of people who took all steps or not, after the exposure and before it. */
function countMoments (people: number, converted: number, { exposed, converted: both }: Seen['had']): Moments {
  const product = (together: number, some: number, others: number): number => together - some * (others / (people || 1))
  const own = product(converted, converted, converted)
  const products = [own, product(both, converted, exposed), product(exposed, exposed, exposed)]
  return { people, sums: [converted, exposed], products }
}

function adjustStates (variants: VariantState[], metric: Metric, lookback: number): Pick<DayState, 'variants' | 'varianceReduction'> {
  const own = metric.isRatio ? 2 : 1
  const covariates = lookback === 0 ? 0 : (variants[0]?.moments.sums.length ?? own) - own
  const moments = variants.map((variant) => variant.moments)
  const { estimates, varianceReduction } = adjustMeans(moments, { isRatio: metric.isRatio, covariates })
  // Where CUPED changes nothing, what the kind of metric says of itself is more exact.
  if (!metric.isRatio && varianceReduction === null) return { variants, varianceReduction }
  return { variants: variants.map((variant, i) => ({ ...variant, adjusted: estimates[i] ?? null })), varianceReduction }
}

function placeQuantiles ({ day, variants }: DayState, { quantiles }: Measurement): DayState {
  return {
    day,
    varianceReduction: null,
    variants: variants.map((variant) => {
      const found = quantiles.find(({ variant: key }) => key === variant.key)
      if (found === undefined) return { ...variant, adjusted: null }
      const { people, sum, value, error } = found
      const adjusted = people < 2 ? null : { mean: value, squaredError: error ** 2 }
      return { ...variant, measured: people, sum, adjusted }
    })
  }
}

/** The days of a series that are shown: all of them, or every n-th, counted back from the last. */
function spacedDays (states: readonly DayState[]): DayState[] {
  const every = Math.ceil(states.length / MAX_POINTS)
  return states.filter((_, index) => (states.length - 1 - index) % every === 0)
}

/**
 * Analyses how things stood at the end of each day; the last one is the result. Between two days, other requests get
 * their turn.
 */
export async function analyseDays (
  days: readonly DayState[], settings: Omit<MetricData, 'variants'>
): Promise<{ result: MetricAnalysis, series: SeriesPoint[] }> {
  const analyses = new Map<VariantState[], MetricAnalysis>()
  const analyse = (variants: VariantState[]): MetricAnalysis => {
    const known = analyses.get(variants) ?? analyseMetric({ ...settings, variants })
    analyses.set(variants, known)
    return known
  }
  const last = days.at(-1)
  if (last === undefined) throw new RangeError('days: at least one is needed')
  const series: SeriesPoint[] = []
  for (const { day, variants } of spacedDays(days)) {
    series.push(describeDay(day, analyse(variants)))
    await nextTurn()
  }
  return { result: analyse(last.variants), series }
}

/** How things stood at the end of a day. */
type SeriesPoint = ReturnType<typeof describeDay>

/** @param day  `YYYY-MM-DD` in the project's time zone. */
function describeDay (day: string, analysis: MetricAnalysis) {
  const baseline = analysis.variants.find(({ key }) => key === analysis.baseline) as VariantAnalysis
  return {
    day,
    significanceCode: analysis.significanceCode,
    pValue: analysis.pValue,
    variants: analysis.variants.map((variant) => ({
      key: variant.key,
      exposed: variant.exposed,
      measured: variant.measured,
      mean: variant.mean,
      probability: variant.probability,
      credibleInterval: variant.credibleInterval,
      absoluteLift: variant.comparison?.absoluteLift ?? null,
      relativeLift: variant.comparison?.relativeLift ?? null,
      sequentialPValue: variant.comparison?.sequential.pValue ?? null,
      sequentialAbsoluteInterval: variant.comparison?.sequential.absoluteInterval ?? null,
      sequentialRelativeInterval: variant.comparison?.sequential.relativeInterval ?? null,
      missingInterval: variant === baseline ? null : explainMissing(variant, baseline)
    }))
  }
}

export const MISSING_INTERVALS = [
  'variant_not_exposed', 'baseline_not_exposed', 'too_few_values', 'values_do_not_vary', 'baseline_near_zero'
] as const

/** Why the data of a day allow no relative sequential interval of a variant; null when it has one. */
function explainMissing (variant: VariantAnalysis, baseline: VariantAnalysis): typeof MISSING_INTERVALS[number] | null {
  const { comparison } = variant
  if (comparison === null) {
    if (variant.exposed === 0) return 'variant_not_exposed'
    return baseline.exposed === 0 ? 'baseline_not_exposed' : 'too_few_values'
  }
  if (comparison.sequential.absoluteInterval === null) return 'values_do_not_vary'
  return comparison.sequential.relativeInterval === null ? 'baseline_near_zero' : null
}
