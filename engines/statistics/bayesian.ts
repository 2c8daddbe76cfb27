import { INNER_LEVEL, type Posterior } from './posterior.ts'
import { findQuantile } from './find-quantile.ts'
import { normalCumulative, normalQuantile } from './distributions.ts'
import { ratioInterval } from './ratio-interval.ts'

/** One variant among all. */
export interface Standing {
  /** Probability that this variant's true value is the best of all. They add up to 1. */
  probability: number
  /** Average loss by choosing this variant when another is better, in the metric's unit. */
  expectedLoss: number
}

/**
 * Compares any number of variants at once, exactly up to rounding (no sampling):
 *
 *   probability of i = integral of f_i(x) * product over j of F_j(x), j other than i
 *   expected loss of i = E[max] - E[i] = integral of F_i(x) * (1 - product over j of F_j(x))
 *
 * Where less is better, with 1 - F in place of F.
 */
export function rankPosteriors (posteriors: readonly Posterior[], isIncreaseGood = true): Standing[] {
  if (posteriors.length === 1) return [{ probability: 1, expectedLoss: 0 }]
  const { points, widths } = buildIntegrationNodes(posteriors.flatMap((posterior) => posterior.breakpoints))
  const ranked = posteriors.map((posterior) => ({ posterior, standing: { mass: 0, best: 0, loss: 0 } }))

  for (const [n, x] of points.entries()) {
    const width = widths[n] ?? 0
    const worse = posteriors.map((posterior) => isIncreaseGood ? posterior.cumulative(x) : 1 - posterior.cumulative(x))
    const othersWorse = productsOfOthers(worse)
    for (const [i, { posterior: { density, lowest, highest }, standing }] of ranked.entries()) {
      const others = othersWorse[i] ?? 0
      const mass = x < lowest || x > highest ? 0 : width * density(x)
      standing.mass += mass
      standing.best += mass * others
      standing.loss += width * (worse[i] ?? 0) * (1 - others)
    }
  }
  const chances = ranked.map(({ standing: { mass, best, loss } }) => ({ chance: best / mass, loss }))
  const total = chances.reduce((sum, { chance }) => sum + chance, 0)
  return chances.map(({ chance, loss }) => ({ probability: chance / total, expectedLoss: Math.max(0, loss) }))
}

/** For each value the product of all others, without dividing by what may be zero. */
function productsOfOthers (values: readonly number[]): number[] {
  const products: number[] = []
  let before = 1
  for (const value of values) {
    products.push(before)
    before *= value
  }
  let after = 1
  for (let i = values.length - 1; i >= 0; i--) {
    products[i] = (products[i] ?? 1) * after
    after *= values[i] ?? 1
  }
  return products
}

/** A variant against the baseline. */
export interface BayesianComparison {
  /** Probability that the variant's true value is above the baseline's. */
  chanceToBeatBaseline: number
  /** Credible interval of variant - baseline. */
  absoluteInterval: [lower: number, upper: number]
  /** Credible interval of variant / baseline - 1; `null` when the baseline may be zero or less. */
  relativeInterval: [lower: number, upper: number] | null
  /** The same at 50 %: the true difference is as likely to be within as outside. */
  innerAbsoluteInterval: [lower: number, upper: number]
  innerRelativeInterval: [lower: number, upper: number] | null
}

/**
 * The difference and the ratio of two independent posteriors of one family, and their central intervals of `level` and
 * of 50 %: quantiles of the same distribution, so that the inner one always lies in the wide one.
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
  const absolute = (probability: number): number => findQuantile(differenceBelow, probability, difference)
  const relative = (probability: number): number => findQuantile(ratioBelow, probability, quotient) - 1
  return {
    chanceToBeatBaseline: 1 - differenceBelow(0),
    absoluteInterval: centre(absolute, level),
    relativeInterval: centre(relative, level),
    innerAbsoluteInterval: centre(absolute, INNER_LEVEL),
    innerRelativeInterval: centre(relative, INNER_LEVEL)
  }
}

/** The quantiles that leave equally much out on both sides. */
function centre (quantile: (probability: number) => number, level: number): [lower: number, upper: number] {
  return [quantile((1 - level) / 2), quantile((1 + level) / 2)]
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
  const masses = points.map((x, i) => posterior.density(x) * (widths[i] ?? 0))
  const total = masses.reduce((sum, mass) => sum + mass, 0)
  return (f) => points.reduce((sum, x, i) => sum + f(x) * (masses[i] ?? 0), 0) / total
}

function spreadOf ({ standardDeviation, mean }: Posterior): number {
  return standardDeviation / mean
}

function compareNormals (variant: Posterior, baseline: Posterior, level: number): BayesianComparison {
  const difference = variant.mean - baseline.mean
  const deviation = Math.hypot(variant.standardDeviation, baseline.standardDeviation)
  const estimate = ({ mean, standardDeviation }: Posterior) => ({ mean, squaredError: standardDeviation ** 2 })
  const absolute = (z: number): [number, number] => [difference - z * deviation, difference + z * deviation]
  const relative = (z: number): [number, number] | null => ratioInterval(estimate(variant), estimate(baseline), z)
  const [wide, inner] = [normalQuantile((1 + level) / 2), normalQuantile((1 + INNER_LEVEL) / 2)]
  return {
    chanceToBeatBaseline: normalCumulative(difference / deviation),
    absoluteInterval: absolute(wide),
    relativeInterval: relative(wide),
    innerAbsoluteInterval: absolute(inner),
    innerRelativeInterval: relative(inner)
  }
}

/** Points and widths such that the integral of f is nearly the sum of `f(points[i]) * widths[i]`. */
export interface IntegrationNodes {
  points: number[]
  widths: number[]
}

// Eight points integrate a polynomial of degree 15 exactly; panels of 1.5 standard deviations then keep 10 digits.
const POINTS_PER_PANEL = 8

const legendre = buildLegendreRule(POINTS_PER_PANEL)

/**
 * Gauss-Legendre quadrature over the panels between breakpoints, which may come in any order and repeat. A panel that
 * begins at zero is cut where a density with a pole is steep; in its first part x is the square of the integration
 * variable, which takes away the pole of 1 / sqrt(x).
 */
export function buildIntegrationNodes (breakpoints: readonly number[]): IntegrationNodes {
  const ends = [...new Set(breakpoints)].sort((a, b) => a - b)
  if (ends[0] === 0 && ends[1] !== undefined) ends.splice(1, 0, ends[1] / 64, ends[1] / 8)
  const nodes: IntegrationNodes = { points: [], widths: [] }
  let low = ends[0] ?? 0
  for (const high of ends.slice(1)) {
    const half = (high - low) / 2
    for (const { point, weight } of legendre) {
      const share = (1 + point) / 2
      nodes.points.push(low === 0 ? 2 * half * share ** 2 : low + half * (1 + point))
      nodes.widths.push(half * weight * (low === 0 ? 2 * share : 1))
    }
    low = high
  }
  return nodes
}

/**
 * Roots of the Legendre polynomial by Newton's method, and their weights 2 / ((1 - x^2) P'(x)^2)
 * (Abramowitz and Stegun, 25.4.29).
 */
function buildLegendreRule (size: number): { point: number, weight: number }[] {
  return Array.from({ length: size }, (_, i) => {
    let point = -Math.cos(Math.PI * (i + 0.75) / (size + 0.5))
    let slope = 1
    // Newton doubles the digits each time; the starting value has two.
    for (let round = 0; round < 6; round++) {
      let before = 1
      let value = point
      for (let n = 2; n <= size; n++) [before, value] = [value, ((2 * n - 1) * point * value - (n - 1) * before) / n]
      slope = size * (point * value - before) / (point * point - 1)
      point -= value / slope
    }
    return { point, weight: 2 / ((1 - point * point) * slope * slope) }
  })
}
