import { normalQuantile } from './distributions.ts'

/** Expectation of a metric before the experiment, per exposed person. */
export type MetricExpectation =
  | { kind: 'funnel', /** Conversion rate, 0 to 1. */ baseline: number }
  | { kind: 'count', /** Events per person. */ baseline: number, /** Variance over mean, default 1. */ dispersion?: number }
  | { kind: 'sum' | 'mean', /** Mean per person. */ baseline: number, standardDeviation: number }

/** What the experiment must be able to see. */
export interface SampleSizeGoal {
  /** Smallest relative change worth seeing, for example 0.05 for 5 % up (or -0.05 for down). */
  minimumDetectableEffect: number
  /** Chance to see it when it is there. Default 0.8. */
  power?: number
  /** Two-sided false-positive rate. Default 0.05. */
  significanceLevel?: number
  /** Rollout weights, the baseline's first, in any unit. Default: two equal ones. */
  weights?: readonly number[]
  /** Share the level among the comparisons (Bonferroni), as the analysis does. Default true. */
  adjustForComparisons?: boolean
  /** New people per day, over all variants: gives the running time. */
  exposedPerDay?: number
  /** How many times more the values vary than the expectation says. Default 1. */
  varianceFactor?: number
  /** People exposed so far, over all variants: gives the days that remain. */
  exposedSoFar?: number
}

export interface SampleSize {
  /** People needed over all variants; `null` when no number of people would do. */
  total: number | null
  /** The same per variant, in the order of `weights`. */
  perVariant: number[] | null
  /** Days from start to `total`, rounded up; `null` without `exposedPerDay`. */
  runningDays: number | null
  /** Days still to go; `null` without `exposedPerDay`. */
  remainingDays: number | null
  /** Why there is not a number. */
  reason: 'no_effect' | 'baseline_not_positive' | 'target_out_of_range' | null
}

/**
 * People needed to see a given relative change, by the usual normal approximations: two proportions with the pooled
 * variance for the test and the unpooled one for the power (Fleiss; R's `power.prop.test`), two means with Guenther's
 * (1981) correction for the t distribution (within one person of R's `power.t.test`), two Poisson rates by their
 * variances. With unequal weights each variance is divided by its share; the hardest comparison decides.
 *
 * This is for one look at the end. Watching the sequential intervals instead needs more people for the same power.
 *
 * @throws {RangeError} naming the field, for probabilities outside 0 to 1, weights below 0 and the like.
 */
export function estimateSampleSize (expectation: MetricExpectation, goal: SampleSizeGoal): SampleSize {
  const { power = 0.8, significanceLevel = 0.05, weights = [1, 1], adjustForComparisons = true } = goal
  checkGoal(expectation, goal, power, significanceLevel, weights)
  const target = expectation.baseline * (1 + goal.minimumDetectableEffect)
  const reason = findReason(expectation, goal, target)
  if (reason !== null) return { total: null, perVariant: null, runningDays: null, remainingDays: null, reason }

  const totalWeight = weights.reduce((sum, weight) => sum + weight, 0)
  const [own, ...others] = weights.map((weight) => weight / totalWeight) as [number, ...number[]]
  const used = others.filter((share) => share > 0)
  const level = significanceLevel / (adjustForComparisons ? used.length : 1)
  const z = { test: -normalQuantile(level / 2), power: normalQuantile(power) }
  const hardest = Math.max(...used.map((share) => peopleFor(expectation, target, own, share, z)))
  const needed = hardest * (goal.varianceFactor ?? 1)
  const perVariant = [own, ...others].map((share) => Math.ceil(needed * share - 1e-9))
  const total = perVariant.reduce((sum, people) => sum + people, 0)
  const { exposedPerDay = 0, exposedSoFar = 0 } = goal
  return {
    total,
    perVariant,
    runningDays: exposedPerDay > 0 ? Math.ceil(total / exposedPerDay) : null,
    remainingDays: exposedPerDay > 0 ? Math.ceil(Math.max(0, total - exposedSoFar) / exposedPerDay) : null,
    reason
  }
}

/** People over all variants, not yet rounded, for one comparison of shares `own` (baseline) and `other`. */
function peopleFor (
  expectation: MetricExpectation, target: number, own: number, other: number, z: { test: number, power: number }
): number {
  const { baseline } = expectation
  const change = target - baseline
  if (expectation.kind === 'funnel') {
    const pooled = (own * baseline + other * target) / (own + other)
    const underNone = Math.sqrt(pooled * (1 - pooled) * (1 / own + 1 / other))
    const underChange = Math.sqrt(baseline * (1 - baseline) / own + target * (1 - target) / other)
    return ((z.test * underNone + z.power * underChange) / change) ** 2
  }
  if (expectation.kind === 'count') {
    const { dispersion = 1 } = expectation
    return ((z.test + z.power) / change) ** 2 * dispersion * (baseline / own + target / other)
  }
  const variance = expectation.standardDeviation ** 2 * (1 / own + 1 / other)
  return ((z.test + z.power) / change) ** 2 * variance + z.test ** 2 / 2 / (own + other)
}

/** Whether the baseline, which comes first, and some other variant are shown to anybody. */
export function areComparable ([own = 0, ...others]: readonly number[]): boolean {
  return own > 0 && others.some((weight) => weight > 0)
}

function findReason (expectation: MetricExpectation, goal: SampleSizeGoal, target: number): SampleSize['reason'] {
  if (expectation.baseline <= 0) return 'baseline_not_positive'
  if (target === expectation.baseline || goal.minimumDetectableEffect === 0) return 'no_effect'
  const highest = expectation.kind === 'funnel' ? 1 : Infinity
  return target < 0 || target > highest ? 'target_out_of_range' : null
}

function checkGoal (
  expectation: MetricExpectation, goal: SampleSizeGoal, power: number, level: number, weights: readonly number[]
): void {
  const { baseline } = expectation
  const { exposedPerDay = 0, exposedSoFar = 0, minimumDetectableEffect } = goal
  const spread = expectation.kind === 'funnel' ? 0 : expectation.kind === 'count' ? expectation.dispersion ?? 1 : expectation.standardDeviation
  const rules: [boolean, string][] = [
    [Number.isFinite(baseline), 'baseline must be a number'],
    [expectation.kind !== 'funnel' || (baseline >= 0 && baseline <= 1), 'baseline must be between 0 and 1'],
    [Number.isFinite(spread) && spread >= 0, 'standardDeviation and dispersion must be numbers from 0'],
    [Number.isFinite(minimumDetectableEffect), 'minimumDetectableEffect must be a number'],
    [power > 0 && power < 1, 'power must be between 0 and 1'],
    [level > 0 && level < 1, 'significanceLevel must be between 0 and 1'],
    [weights.every((weight) => Number.isFinite(weight) && weight >= 0), 'weights must be numbers from 0'],
    [areComparable(weights), 'weights: the baseline and at least one other weight must be above 0'],
    [Number.isFinite(exposedPerDay) && exposedPerDay >= 0, 'exposedPerDay must be a number from 0'],
    [Number.isFinite(exposedSoFar) && exposedSoFar >= 0, 'exposedSoFar must be a number from 0']
  ]
  const broken = rules.find(([holds]) => !holds)
  if (broken !== undefined) throw new RangeError(broken[1])
}
