import { estimateSampleSize, type MetricExpectation } from '../statistics/estimate-sample-size.ts'
import { type MetricKind } from '../statistics/variant-statistics.ts'
import { type VariantState } from './accumulate-days.ts'
import { type MetricResults } from './metric-results.ts'

/** In percent of the baseline, when the experiment names none. */
const DEFAULT_EFFECT = 5

export interface PlanOptions {
  kind: MetricKind
  baseline: VariantState
  /** Shares of the variants, the baseline's first. */
  weights: number[]
  parameters: Record<string, unknown>
  /** People exposed so far, over all variants. */
  exposed: number
  /** Since the launch; fractions count. */
  daysRunning: number
}

/**
 * How many people the experiment needs, judged by the baseline as it is so far.
 *
 * @returns null while the baseline says nothing, or the shares allow no comparison.
 */
export function planSampleSize (options: PlanOptions): MetricResults['sampleSize'] {
  const { kind, baseline, weights, exposed, daysRunning } = options
  const expectation = describeBaseline(kind, baseline)
  if (expectation === null || !((weights[0] ?? 0) > 0) || !weights.slice(1).some((weight) => weight > 0)) return null
  const { minimum_detectable_effect: requested } = options.parameters
  const minimumDetectableEffect = typeof requested === 'number' && Number.isFinite(requested) ? requested : DEFAULT_EFFECT
  const size = estimateSampleSize(expectation, {
    minimumDetectableEffect: minimumDetectableEffect / 100,
    weights,
    exposedSoFar: exposed,
    ...(exposed > 0 && daysRunning > 0 ? { exposedPerDay: exposed / daysRunning } : {})
  })
  return { ...size, minimumDetectableEffect }
}

function describeBaseline (kind: MetricKind, { measured, sum, sumOfSquares }: VariantState): MetricExpectation | null {
  if (measured === 0) return null
  const mean = sum / measured
  if (kind === 'funnel') return { kind, baseline: mean }
  if (measured < 2) return null
  const variance = Math.max(0, (sumOfSquares - sum / measured * sum) / (measured - 1))
  if (kind === 'count') return mean > 0 ? { kind, baseline: mean, dispersion: Math.max(1, variance / mean) } : null
  return { kind, baseline: mean, standardDeviation: Math.sqrt(variance) }
}
