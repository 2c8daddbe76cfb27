import { type Combination, combine, meanOf, type Moments, NOBODY, productOf } from './moments.ts'

/** What the values of `Moments` are: the metric's, for a ratio the denominator's, then the same before the exposure. */
export interface Layout {
  isRatio: boolean
  /** Covariates: values known before the exposure. A ratio has its numerator and denominator first. */
  covariates: number
}

/** An estimate for one variant. */
export interface Adjusted {
  mean: number
  /** Squared standard error of `mean`. */
  squaredError: number
}

export interface AdjustedMeans {
  /** In the order of the variants; null for one with too few people, or a ratio by nothing. */
  estimates: (Adjusted | null)[]
  /** Share of the variance that the covariates took away; null when they were not used. */
  varianceReduction: number | null
}

/** Below this many people in a variant, slopes are noise. */
const ENOUGH_FOR_SLOPES = 50

/**
 * Means of one value for each variant, and their errors, by two linear steps over values summed up in `Moments`:
 *
 * 1. A ratio of two sums over people is linearised by the delta method: (y - R d) / mean of d (Deng, Knoblich and Lu,
 *    "Applying the delta method in metric analytics", KDD 2018).
 * 2. CUPED takes away what covariates from before the exposure explain (Deng, Xu, Kohavi and Walker, "Improving the
 *    sensitivity of online controlled experiments", WSDM 2013). The slopes are those of all variants together, within
 *    each, so that an effect does not change them; the variance falls to (1 - R^2) of what it was. The covariate of a
 *    ratio is the ratio before, linearised in the same way.
 */
export function adjustMeans (variants: readonly Moments[], layout: Layout): AdjustedMeans {
  const values = variants.map((moments) => linearise(moments, layout))
  const known = values.filter((value) => value !== null)
  const covariates = known.every(({ moments }) => moments.people >= ENOUGH_FOR_SLOPES)
    ? describeCovariates(known.map(({ moments }) => moments), layout)
    : []
  const within = (own: (each: Linear) => Combination, other: (each: Linear) => Combination): number =>
    known.reduce((total, each) => total + productOf(each.moments, own(each), other(each)), 0)
  const slopes = solve(
    covariates.map((row) => covariates.map((column) => within(() => row, () => column))),
    covariates.map((row) => within(() => row, ({ factors }) => factors)))
  const used = slopes.filter((slope) => slope !== 0).length
  const isUsed = used > 0
  const explained = (covariates[0] ?? []).map((_, i) =>
    covariates.reduce((total, factors, k) => total + (slopes[k] ?? 0) * (factors[i] ?? 0), 0))
  const everybody = known.reduce((all, { moments }) => combine(all, moments), NOBODY)
  const residual = ({ factors }: Linear): Combination => factors.map((factor, i) => factor - (explained[i] ?? 0))
  const degrees = everybody.people - known.length
  const spent = degrees / (degrees - used)
  const estimates = values.map((value) => {
    if (value === null) return null
    const { mean, moments } = value
    const shift = isUsed ? meanOf(moments, explained) - meanOf(everybody, explained) : 0
    const variance = Math.max(0, productOf(moments, residual(value), residual(value))) / (moments.people - 1)
    return { mean: mean - shift, squaredError: variance / moments.people * spent }
  })
  const raw = (each: Linear): Combination => each.factors
  return { estimates, varianceReduction: isUsed ? 1 - within(residual, residual) / within(raw, raw) : null }
}

/** An estimate, and the combination of values that varies as it does. */
interface Linear { moments: Moments, mean: number, factors: Combination }

/** @returns null for fewer than two people, and for a ratio by nothing. */
function linearise (moments: Moments, { isRatio }: Layout): Linear | null {
  const { people, sums: [y = 0, d = 0] } = moments
  if (people < 2) return null
  const rest = moments.sums.slice(isRatio ? 2 : 1).map(() => 0)
  if (!isRatio) return { moments, mean: y / people, factors: [1, ...rest] }
  return d === 0 ? null : { moments, mean: y / d, factors: [people / d, -y / d * people / d, ...rest] }
}

/** The covariates as combinations, for all variants the same. */
function describeCovariates (variants: readonly Moments[], { isRatio, covariates }: Layout): Combination[] {
  const first = isRatio ? 2 : 1
  const size = first + covariates
  const unit = (at: number): number[] => Array.from({ length: size }, (_, i) => Number(i === at))
  const units = Array.from({ length: covariates }, (_, k) => unit(first + k))
  if (!isRatio || covariates < 2) return units
  const [y = 0, d = 0] = [2, 3].map((at) => variants.reduce((total, { sums }) => total + (sums[at] ?? 0), 0))
  if (d === 0) return []
  const before = unit(2).map((factor, i) => i === 3 ? -y / d : factor)
  return [before, ...units.slice(2)]
}

/** Share of a covariate's variance beside the others, below which it adds no information. */
const NOTHING_LEFT = 1e-9

/** Slopes of a least-squares fit from its normal equations; 0 for what does not vary, or follows from others. */
function solve (matrix: readonly (readonly number[])[], right: readonly number[]): number[] {
  const rows = matrix.map((row, i) => [...row, right[i] ?? 0])
  const used = new Set<number>()
  for (const [i, pivot] of rows.entries()) {
    const diagonal = pivot[i] ?? 0
    if (!(diagonal > NOTHING_LEFT * (matrix[i]?.[i] ?? 0))) continue
    used.add(i)
    for (const [k, row] of rows.entries()) {
      const factor = k === i ? 0 : (row[i] ?? 0) / diagonal
      rows[k] = row.map((value, at) => value - factor * (pivot[at] ?? 0))
    }
  }
  return rows.map((row, i) => used.has(i) ? (row.at(-1) ?? 0) / (row[i] ?? 1) : 0)
}
