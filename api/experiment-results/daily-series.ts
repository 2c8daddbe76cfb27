import type { MetricKind, VariantStatistics } from '../experiment-statistics/variant-statistics.ts'
import { analyseMetric } from '../experiment-statistics/analyse-metric.ts'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MetricAnalysis, VariantAnalysis } from '../experiment-statistics/metric-analysis.ts'
import type { DailyChange } from './query-metric.ts'
import type { MissingInterval, SeriesPoint } from './metric-results.ts'

/** The variant of people who saw several, in the answers of the queries. */
export const MULTIPLE = '$multiple'

/** What is known of a variant up to the end of a day. */
export interface VariantState extends VariantStatistics {
  measured: number
  sumOfSquares: number
  /** People who reached each step of a funnel. */
  steps: number[]
}

/** The state of all variants at the end of a day. */
interface DayState {
  day: string
  variants: VariantState[]
}

/** Each is analysed in full, some milliseconds of computing a variant; a picture has no room for more. */
const MAX_POINTS = 60

/**
 * Adds changes up to how things stood at the end of each day, from the first exposure to `lastDay`, without gaps.
 *
 * @param keys     All variants, in the flag's order; the ones nobody saw stay at zero.
 * @param lastDay  `YYYY-MM-DD`.
 */
export function accumulateDays (changes: readonly DailyChange[], keys: readonly string[], lastDay: string): DayState[] {
  const changesByDay = Map.groupBy(changes.filter(({ variant }) => variant !== MULTIPLE), ({ day }) => day)
  const stepCount = Math.max(0, ...changes.map(({ steps }) => steps.length))
  let variants = keys.map((key): VariantState => ({
    key, exposed: 0, measured: 0, sum: 0, sumOfSquares: 0, steps: Array.from({ length: stepCount }, () => 0)
  }))
  const states: DayState[] = []
  for (const day of listDays([...changesByDay.keys()].sort()[0] ?? lastDay, lastDay)) {
    const today = changesByDay.get(day)
    // A day on which nothing happened shares the state of the day before, so that it is analysed once.
    if (today !== undefined) {
      variants = variants.map((state) => add(state, today.find(({ variant }) => variant === state.key)))
    }
    states.push({ day, variants })
  }
  return states
}

function add (state: VariantState, change: DailyChange | undefined): VariantState {
  if (change === undefined) return state
  return {
    key: state.key,
    exposed: state.exposed + change.exposed,
    measured: state.measured + change.measured,
    sum: state.sum + change.sum,
    sumOfSquares: Math.max(0, state.sumOfSquares + change.sumOfSquares),
    steps: state.steps.map((people, index) => people + (change.steps[index] ?? 0))
  }
}

function listDays (first: string, last: string): string[] {
  const days: string[] = []
  for (let day = first; day <= last; day = nextDay(day)) days.push(day)
  return days.length === 0 ? [first] : days
}

function nextDay (day: string): string {
  const date = new Date(`${day}T00:00:00Z`)
  date.setUTCDate(date.getUTCDate() + 1)
  return date.toISOString().slice(0, 10)
}

/** The days of a series that are shown: all of them, or every n-th, counted back from the last. */
function spacedDays (states: readonly DayState[]): DayState[] {
  const every = Math.ceil(states.length / MAX_POINTS)
  return states.filter((_, index) => (states.length - 1 - index) % every === 0)
}

export interface AnalysisSettings {
  kind: MetricKind
  /** Key of the variant that the others are compared with. */
  baseline: string
  /** People at which the sequential method is tuned: the planned sample size; undefined leaves the default. */
  plannedSampleSize: number | undefined
}

/**
 * Analyses how things stood at the end of each day; the last one is the result. Between two days, other requests get
 * their turn.
 */
export async function analyseDays (
  days: readonly DayState[], settings: AnalysisSettings
): Promise<{ result: MetricAnalysis, series: SeriesPoint[] }> {
  const analyses = new Map<VariantState[], MetricAnalysis>()
  const analyse = (variants: VariantState[]): MetricAnalysis => {
    const known = analyses.get(variants) ?? analyseState(variants, settings)
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

function analyseState (variants: VariantState[], settings: AnalysisSettings): MetricAnalysis {
  const { kind, baseline, plannedSampleSize } = settings
  return analyseMetric({
    kind, baseline, variants,
    options: plannedSampleSize === undefined ? {} : { sequentialTunedFor: plannedSampleSize }
  })
}

function describeDay (day: string, analysis: MetricAnalysis): SeriesPoint {
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

/** Why a variant has no relative sequential interval; null when it has one. */
function explainMissing (variant: VariantAnalysis, baseline: VariantAnalysis): MissingInterval | null {
  const { comparison } = variant
  if (comparison === null) {
    if (variant.exposed === 0) return 'variant_not_exposed'
    return baseline.exposed === 0 ? 'baseline_not_exposed' : 'too_few_values'
  }
  if (comparison.sequential.absoluteInterval === null) return 'values_do_not_vary'
  return comparison.sequential.relativeInterval === null ? 'baseline_near_zero' : null
}
