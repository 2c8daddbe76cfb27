import type { MetricKind, VariantStatistics } from '../experiment-statistics/variant-statistics.ts'
import { analyseMetric } from '../experiment-statistics/analyse-metric.ts'
import type { MetricAnalysis } from '../experiment-statistics/metric-analysis.ts'
import type { DailyChange } from './query-metric.ts'
import type { SeriesPoint } from './metric-results.ts'

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

/** Longer series are cut at their beginning: nobody plots more days. */
const MAX_DAYS = 366

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

/** The days of a series that are shown. */
function recentDays (states: readonly DayState[]): DayState[] {
  return states.slice(-MAX_DAYS)
}

export interface AnalysisSettings {
  kind: MetricKind
  /** Key of the variant that the others are compared with. */
  baseline: string
  /** People at which the sequential method is tuned: the planned sample size; undefined leaves the default. */
  plannedSampleSize: number | undefined
}

/** Analyses how things stood at the end of each day; the last one is the result. */
export function analyseDays (
  days: readonly DayState[], settings: AnalysisSettings
): { result: MetricAnalysis, series: SeriesPoint[] } {
  const analyses = new Map<VariantState[], MetricAnalysis>()
  const analyse = (variants: VariantState[]): MetricAnalysis => {
    const known = analyses.get(variants) ?? analyseState(variants, settings)
    analyses.set(variants, known)
    return known
  }
  const last = days.at(-1)
  if (last === undefined) throw new RangeError('days: at least one is needed')
  return {
    result: analyse(last.variants),
    series: recentDays(days).map(({ day, variants }) => describeDay(day, analyse(variants)))
  }
}

function analyseState (variants: VariantState[], settings: AnalysisSettings): MetricAnalysis {
  const { kind, baseline, plannedSampleSize } = settings
  return analyseMetric({
    kind, baseline, variants,
    options: plannedSampleSize === undefined ? {} : { sequentialTunedFor: plannedSampleSize }
  })
}

function describeDay (day: string, analysis: MetricAnalysis): SeriesPoint {
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
      relativeLift: variant.comparison?.relativeLift ?? null,
      sequentialPValue: variant.comparison?.sequential.pValue ?? null
    }))
  }
}
