import type { Adjusted } from './adjust-means.ts'

/**
 * What a metric measures, and so how it is modelled:
 * - `funnel`: whether an exposed person converted (beta-binomial; two proportions);
 * - `count`: how many events an exposed person sent (gamma-Poisson; conditional binomial);
 * - `sum`: the total of a property per exposed person, zero for those without events (normal; Welch);
 * - `mean`: the average of a property per person who has one (normal; Welch);
 * - `ratio`: a sum over people by another sum; `retention`: who came back, of those who started (both: delta method).
 */
export const METRIC_KINDS = ['funnel', 'count', 'sum', 'mean', 'ratio', 'retention'] as const

export type MetricKind = typeof METRIC_KINDS[number]

/** All that the methods need to know of one variant, over its exposed people (or groups). */
export interface VariantStatistics {
  key: string
  /** People (or groups) exposed to the variant. */
  exposed: number
  /**
   * People with a value, when these are fewer than the exposed: the denominator of a `mean`. Default: `exposed`.
   */
  measured?: number
  /** Sum of the per-person values. For a `funnel` this is the number of people who converted. */
  sum: number
  /**
   * Sum of the squared differences between the per-person values and their mean, as Welford's algorithm keeps it: a sum
   * of squares loses the spread of values that are large beside it. Not read for a `funnel`. Without it a `count` is
   * taken for Poisson, which makes intervals too narrow when some people send many events. `sum` and `mean` need it.
   */
  squaredDeviations?: number
  /** What takes the place of the mean and its error: of ratios and quantiles, after CUPED. The model is normal then. */
  adjusted?: Adjusted | null
}

/**
 * Refuses numbers that no data can give.
 *
 * @throws {RangeError} naming the variant and the field. Legitimate data, however thin, never throws.
 */
export function checkVariants (kind: MetricKind, variants: readonly VariantStatistics[]): void {
  if (variants.length === 0) throw new RangeError('variants: at least one is needed')
  const keys = new Set(variants.map((variant) => variant.key))
  if (keys.size !== variants.length) throw new RangeError('variants: keys must be unique')
  for (const variant of variants) {
    const problem = findProblem(kind, variant)
    if (problem !== undefined) throw new RangeError(`variant ${variant.key}: ${problem}`)
  }
}

function findProblem (kind: MetricKind, variant: VariantStatistics): string | undefined {
  const { exposed, measured = exposed, sum, squaredDeviations } = variant
  if (!isCount(exposed)) return 'exposed must be a whole number from 0'
  if (!isCount(measured) || measured > exposed) return 'measured must be a whole number from 0 to exposed'
  if (!Number.isFinite(sum)) return 'sum must be a finite number'
  if (measured === 0 && sum !== 0) return 'sum must be 0 when nobody was measured'
  if (kind === 'funnel') return isCount(sum) && sum <= measured ? undefined : 'sum must be a whole number from 0 to exposed'
  if (kind === 'count' && sum < 0) return 'sum must be 0 or more'
  if (variant.adjusted !== undefined) return undefined
  if (squaredDeviations === undefined) return kind === 'count' ? undefined : 'squaredDeviations is needed'
  if (!Number.isFinite(squaredDeviations) || squaredDeviations < 0) return 'squaredDeviations must be a finite number from 0'
}

function isCount (value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}

/** One variant as the methods see it. */
export interface Sample {
  /** People the mean is taken over, at least 1 (`funnel`, `count`) or 2 (`sum`, `mean`). */
  size: number
  sum: number
  /** Conversion rate, events per person, or mean of the property. */
  mean: number
  /** Squared standard error of `mean`. Zero when the values do not vary. */
  squaredError: number
  /**
   * The same with one more success and failure (one more event) put in: not zero when nobody has converted yet, and
   * so safe to look at from the first day on (Agresti and Caffo 2000).
   */
  cautiousSquaredError: number
}

/** The samples, in the variants' order; `null` for a variant that says nothing yet. */
export interface Samples {
  samples: (Sample | null)[]
  /**
   * How many times larger than Poisson the variance of counts is, at least 1, over all variants together. 1 for the
   * other kinds. Counts per person nearly always vary more than Poisson: some people are busy, most are not.
   */
  dispersion: number
}

// Means of equal values differ in their last digits with the order of addition. A standard deviation that is a smaller
// share of the mean is rounding, not spread.
const ROUNDING = 1e-13

/** Turns sums into means and their errors. */
export function buildSamples (kind: MetricKind, variants: readonly VariantStatistics[]): Samples {
  const dispersion = kind === 'count' && !isAdjusted(variants) ? estimateDispersion(variants) : 1
  return { samples: variants.map((variant) => buildSample(kind, variant, dispersion)), dispersion }
}

/** Whether means and errors were computed before, for any model. */
export function isAdjusted (variants: readonly VariantStatistics[]): boolean {
  return variants.some(({ adjusted }) => adjusted !== undefined)
}

function buildSample (kind: MetricKind, variant: VariantStatistics, dispersion: number): Sample | null {
  const { sum } = variant
  const size = variant.measured ?? variant.exposed
  if (variant.adjusted !== undefined) return adjustSample(kind, variant, variant.adjusted)
  if (size < (kind === 'funnel' || kind === 'count' ? 1 : 2)) return null
  const mean = sum / size
  if (kind === 'funnel') {
    const cautiousMean = (sum + 1) / (size + 2)
    const cautiousSquaredError = cautiousMean * (1 - cautiousMean) / (size + 2)
    return { size, sum, mean, squaredError: mean * (1 - mean) / size, cautiousSquaredError }
  }
  if (kind === 'count') {
    const perEvent = dispersion / size / size
    return { size, sum, mean, squaredError: sum * perEvent, cautiousSquaredError: (sum + 1) * perEvent }
  }
  const squaredError = sampleVariance(variant) / size
  return { size, sum, mean, squaredError, cautiousSquaredError: squaredError }
}

/** Early errors of rates stay as cautious as without the adjustment: nobody has converted yet, and nothing varies. */
function adjustSample (
  kind: MetricKind, { adjusted: _, ...variant }: VariantStatistics, adjusted: Adjusted | null
): Sample | null {
  if (adjusted === null) return null
  const plain = kind === 'funnel' ? buildSample(kind, variant, 1) : null
  const caution = plain === null ? 0 : plain.cautiousSquaredError - plain.squaredError
  const { measured: size = variant.exposed, sum } = variant
  return { size, sum, ...adjusted, cautiousSquaredError: adjusted.squaredError + Math.max(0, caution) }
}

/** Unbiased sample variance; 0 when there are fewer than two values. */
export function sampleVariance (variant: VariantStatistics): number {
  const { exposed, measured: size = exposed, sum, squaredDeviations = 0 } = variant
  if (size < 2) return 0
  const variance = squaredDeviations / (size - 1)
  return Math.sqrt(variance) < ROUNDING * Math.abs(sum / size) ? 0 : variance
}

/** Pooled within-variant variance over what Poisson counts of the same means would have. */
function estimateDispersion (variants: readonly VariantStatistics[]): number {
  let observed = 0
  let poisson = 0
  for (const variant of variants) {
    const size = variant.measured ?? variant.exposed
    if (variant.squaredDeviations === undefined || size < 2) continue
    observed += (size - 1) * sampleVariance(variant)
    poisson += (size - 1) * variant.sum / size
  }
  return poisson > 0 ? Math.max(1, observed / poisson) : 1
}
