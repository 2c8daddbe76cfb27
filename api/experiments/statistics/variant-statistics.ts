/**
 * What a metric measures, and so how it is modelled:
 * - `funnel`: whether an exposed person converted (beta-binomial; two proportions);
 * - `count`: how many events an exposed person sent (gamma-Poisson; conditional binomial);
 * - `sum`: the total of a property per exposed person, zero for those without events (normal; Welch);
 * - `mean`: the average of a property per person who has one (normal; Welch).
 */
export type MetricKind = 'funnel' | 'count' | 'sum' | 'mean'

/** All that the methods need to know of one variant: sums over its exposed people (or groups). */
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
   * Sum of the squared per-person values. Not read for a `funnel`. Without it a `count` is taken for Poisson, which
   * makes intervals too narrow when some people send many events. `sum` and `mean` need it.
   */
  sumOfSquares?: number
}

// Sums of many doubles differ in their last digits with the order of addition; more than this is no rounding.
const ROUNDING = 1e-6

/**
 * Refuses numbers that no data can give.
 *
 * @throws {RangeError} naming the variant and the field. Legitimate data, however thin, never throws.
 */
export function checkVariants (kind: MetricKind, variants: readonly VariantStatistics[]): void {
  if (variants.length === 0) throw new RangeError('variants: at least one is needed')
  const keys = new Set(variants.map((variant) => variant.key))
  if (keys.size !== variants.length) throw new RangeError('variants: the keys differ from each other')
  for (const variant of variants) {
    const problem = findProblem(kind, variant)
    if (problem !== undefined) throw new RangeError(`variant ${variant.key}: ${problem}`)
  }
}

function findProblem (kind: MetricKind, variant: VariantStatistics): string | undefined {
  const { exposed, measured = exposed, sum, sumOfSquares } = variant
  if (!isCount(exposed)) return 'exposed must be a whole number from 0'
  if (!isCount(measured) || measured > exposed) return 'measured must be a whole number from 0 to exposed'
  if (!Number.isFinite(sum)) return 'sum must be a finite number'
  if (measured === 0 && sum !== 0) return 'sum must be 0 when nobody was measured'
  if (kind === 'funnel') return isCount(sum) && sum <= measured ? undefined : 'sum must be a whole number from 0 to exposed'
  if (kind === 'count' && sum < 0) return 'sum must be 0 or more'
  if (sumOfSquares === undefined) return kind === 'count' ? undefined : 'sumOfSquares is needed'
  if (!Number.isFinite(sumOfSquares) || sumOfSquares < 0) return 'sumOfSquares must be a finite number from 0'
  if (sumOfSquares * measured < sum * sum * (1 - ROUNDING)) return 'sumOfSquares is smaller than its sum allows'
}

function isCount (value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}
