import { findQuantile } from '../distributions/find-quantile.ts'
import { normalCumulative, normalQuantile } from '../distributions/normal.ts'
import { ratioInterval } from '../ratio-interval.ts'
import { buildIntegrationNodes } from './integration-nodes.ts'
import { type Posterior } from './posterior.ts'

/** A variant against the baseline. */
export interface BayesianComparison {
  /** Probability that the variant's true value is above the baseline's. */
  chanceToBeatBaseline: number
  /** Credible interval of variant - baseline. */
  absoluteInterval: [lower: number, upper: number]
  /** Credible interval of variant / baseline - 1; `null` when the baseline may be zero or less. */
  relativeInterval: [lower: number, upper: number] | null
}

/**
 * The difference and the ratio of two independent posteriors of one family, and their central intervals of `level`.
 *
 * Normal ones in closed form (the ratio by Fieller's). Others by quadrature over the narrower of the two, as
 * the cumulative distribution of the wider one is then smooth between the points; the bounds by root finding.
 */
export function comparePosteriors (variant: Posterior, baseline: Posterior, level: number): BayesianComparison {
  if (variant.family === 'normal') return compareNormals(variant, baseline, level)
  const differenceBelow = buildDifference(variant, baseline)
  const ratioBelow = buildRatio(variant, baseline)
  const ratio = variant.mean / baseline.mean
  const difference = {
    guess: variant.mean - baseline.mean,
    scale: Math.hypot(variant.standardDeviation, baseline.standardDeviation)
  }
  const quotient = { guess: ratio, scale: ratio * Math.hypot(spreadOf(variant), spreadOf(baseline)), lowest: 0 }
  const [low, high] = [(1 - level) / 2, (1 + level) / 2]
  return {
    chanceToBeatBaseline: 1 - differenceBelow(0),
    absoluteInterval: [findQuantile(differenceBelow, low, difference), findQuantile(differenceBelow, high, difference)],
    relativeInterval: [findQuantile(ratioBelow, low, quotient) - 1, findQuantile(ratioBelow, high, quotient) - 1]
  }
}

/** Probability that variant - baseline is at most d, as a function of d. */
function buildDifference (variant: Posterior, baseline: Posterior): (d: number) => number {
  if (variant.standardDeviation >= baseline.standardDeviation) {
    const average = buildAverage(baseline)
    return (d) => average((x) => variant.cumulative(x + d))
  }
  const average = buildAverage(variant)
  return (d) => 1 - average((x) => baseline.cumulative(x - d))
}

/** Probability that variant / baseline is at most q, as a function of q. */
function buildRatio (variant: Posterior, baseline: Posterior): (q: number) => number {
  if (spreadOf(variant) >= spreadOf(baseline)) {
    const average = buildAverage(baseline)
    return (q) => average((x) => variant.cumulative(q * x))
  }
  const average = buildAverage(variant)
  return (q) => q <= 0 ? 0 : 1 - average((x) => baseline.cumulative(x / q))
}

/** The average of any function over a posterior. */
function buildAverage (posterior: Posterior): (f: (x: number) => number) => number {
  const { points, widths } = buildIntegrationNodes(posterior.breakpoints)
  const masses = points.map((x, i) => posterior.density(x) * (widths[i] as number))
  const total = masses.reduce((sum, mass) => sum + mass, 0)
  return (f) => points.reduce((sum, x, i) => sum + f(x) * (masses[i] as number), 0) / total
}

function spreadOf ({ standardDeviation, mean }: Posterior): number {
  return standardDeviation / mean
}

function compareNormals (variant: Posterior, baseline: Posterior, level: number): BayesianComparison {
  const difference = variant.mean - baseline.mean
  const deviation = Math.hypot(variant.standardDeviation, baseline.standardDeviation)
  const z = normalQuantile((1 + level) / 2)
  const estimate = ({ mean, standardDeviation }: Posterior) => ({ mean, squaredError: standardDeviation ** 2 })
  return {
    chanceToBeatBaseline: normalCumulative(difference / deviation),
    absoluteInterval: [difference - z * deviation, difference + z * deviation],
    relativeInterval: ratioInterval(estimate(variant), estimate(baseline), z)
  }
}
