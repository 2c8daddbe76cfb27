import { analyseMetric } from '../statistics/analyse-metric.ts'
import { type MetricAnalysis } from '../statistics/metric-analysis.ts'
import { type MetricKind } from '../statistics/variant-statistics.ts'
import { recentDays, type DayState, type VariantState } from './accumulate-days.ts'
import { type SeriesPoint } from './metric-results.ts'

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
