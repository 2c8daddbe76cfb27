import type { MetricKind, VariantStatistics } from '../../../engines/statistics/variant-statistics.ts'
import { analyseMetric } from '../../../engines/statistics/analyse-metric.ts'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MetricAnalysis, VariantAnalysis } from '../../../engines/statistics/metric-analysis.ts'
import { isDeepStrictEqual } from 'node:util'
import { formatDay, type Measurement, type Spread } from './query-metric.ts'

/** The variant of people who saw several, in the answers of the queries. */
export const MULTIPLE = '$multiple'

/** What is known of a variant up to the end of a day. */
export interface VariantState extends VariantStatistics {
  measured: number
  squaredDeviations: number
  /** People who reached each step of a funnel. */
  steps: number[]
}

/** The state of all variants at the end of a day. */
export interface DayState {
  day: string
  variants: VariantState[]
}

/** Each is analysed in full, some milliseconds of computing a variant; a picture has no room for more. */
const MAX_POINTS = 60

/**
 * Puts together how things stood at the end of each day, from the first exposure to the last day, without gaps.
 *
 * @param keys  All variants, in the flag's order; the ones nobody saw stay at zero.
 */
export function accumulateDays (
  kind: MetricKind, { days, changes, blocks }: Measurement, keys: readonly string[]
): DayState[] {
  const changesByKey = Map.groupBy(changes, ({ variant, day }) => `${day} ${variant}`)
  const blocksByKey = new Map(blocks.map((block) => [`${block.level} ${block.block} ${block.variant}`, block]))
  const levels = [...new Set(blocks.map(({ level }) => level))]
  const stepCount = Math.max(0, ...changes.map(({ steps }) => steps.length))
  const seen = keys.map((key) => ({ key, exposed: 0, steps: Array.from({ length: stepCount }, () => 0) }))
  const last = days.last - days.first
  const first = changes.filter(({ variant }) => variant !== MULTIPLE)
    .reduce((earliest, { day }) => Math.min(earliest, day), last)
  const states: DayState[] = []
  for (let day = first; day <= last; day++) {
    const variants = seen.map((state): VariantState => {
      for (const { exposed, steps } of changesByKey.get(`${day} ${state.key}`) ?? []) {
        state.exposed += exposed
        state.steps = state.steps.map((people, index) => people + (steps[index] ?? 0))
      }
      const spreads = levels.flatMap((level) => blocksByKey.get(`${level} ${day >> level} ${state.key}`) ?? [])
      return describeState(kind, state, spreads.reduce(combine, NOBODY))
    })
    // A day on which nothing happened shares the state of the day before, so that it is analysed once.
    const before = states.at(-1)?.variants
    const isSame = before !== undefined && isDeepStrictEqual(variants, before)
    states.push({ day: formatDay(days.first + day), variants: isSame ? before : variants })
  }
  return states
}

const NOBODY: Spread = { people: 0, sum: 0, deviations: 0 }

/**
 * Two groups of people as one (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979). Nothing cancels: squares are taken of differences between means only.
 */
function combine (some: Spread, others: Spread): Spread {
  if (some.people === 0) return others
  if (others.people === 0) return some
  const people = some.people + others.people
  const difference = some.sum / some.people - others.sum / others.people
  return {
    people,
    sum: some.sum + others.sum,
    deviations: some.deviations + others.deviations + difference * difference * some.people * (others.people / people)
  }
}

function describeState (
  kind: MetricKind, { key, exposed, steps }: { key: string, exposed: number, steps: number[] }, spread: Spread
): VariantState {
  if (kind === 'funnel') return { key, exposed, measured: exposed, sum: steps.at(-1) ?? 0, squaredDeviations: 0, steps }
  // Who sent nothing counts with zero, but has no mean.
  const rest = kind === 'mean' ? NOBODY : { ...NOBODY, people: exposed - spread.people }
  const { people, sum, deviations } = combine(spread, rest)
  return { key, exposed, measured: people, sum, squaredDeviations: deviations, steps }
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
