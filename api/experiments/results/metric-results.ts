import { type MetricAnalysis } from '../statistics/metric-analysis.ts'
import { type SampleRatioCheck } from '../statistics/check-sample-ratio.ts'
import { type SampleSize } from '../statistics/estimate-sample-size.ts'
import { type Metric } from './metric.ts'

/** Everything the API tells about one metric of an experiment; field names turn to snake_case in the answer. */
export interface MetricResults extends Omit<MetricAnalysis, 'variants'> {
  /** The word of the reference's clients for the kind. */
  insight: 'FUNNELS' | 'TRENDS'
  metric: Metric
  variants: (MetricAnalysis['variants'][number] & {
    /** People who reached each step of a funnel, in order; empty for the other kinds. */
    steps: number[]
  })[]
  exposures: {
    /** People who saw one variant. */
    total: number
    /** People who saw several variants, who are left out. */
    multipleVariants: number
    /** Whether the variants got the shares of people that the flag gives them. */
    sampleRatio: SampleRatioCheck | null
  }
  /** People needed to see the minimum detectable effect; null until the baseline has a value. */
  sampleSize: SampleSize & { /** In percent of the baseline. */ minimumDetectableEffect: number } | null
  /** One point a day, as things stood at its end. */
  series: SeriesPoint[]
}

export interface SeriesPoint {
  /** `YYYY-MM-DD` in the project's time zone. */
  day: string
  significanceCode: MetricAnalysis['significanceCode']
  pValue: number | null
  variants: {
    key: string
    exposed: number
    measured: number
    mean: number | null
    probability: number
    credibleInterval: [number, number] | null
    /** Against the baseline; null for the baseline itself. */
    relativeLift: number | null
    /** Safe to look at every day, unlike `pValue`. */
    sequentialPValue: number | null
  }[]
}
