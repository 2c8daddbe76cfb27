import { buildIntegrationNodes } from './integration-nodes.ts'
import { type Posterior } from './posterior.ts'

/** One variant among all. */
export interface Standing {
  /** Probability that this variant's true value is above all others'. They add up to 1. */
  probability: number
  /** What is lost on average by choosing this variant when another is better, in the metric's unit. */
  expectedLoss: number
}

/**
 * Compares any number of variants at once, exactly up to rounding (no sampling):
 *
 *   probability of i = integral of f_i(x) * product over j of F_j(x), j other than i
 *   expected loss of i = E[max] - E[i] = integral of F_i(x) * (1 - product over j of F_j(x))
 */
export function rankPosteriors (posteriors: readonly Posterior[]): Standing[] {
  if (posteriors.length === 1) return [{ probability: 1, expectedLoss: 0 }]
  const { points, widths } = buildIntegrationNodes(posteriors.flatMap((posterior) => posterior.breakpoints))
  const standings = posteriors.map(() => ({ mass: 0, best: 0, loss: 0 }))

  for (const [n, x] of points.entries()) {
    const width = widths[n] as number
    const below = posteriors.map((posterior) => posterior.cumulative(x))
    const othersBelow = productsOfOthers(below)
    for (const [i, standing] of standings.entries()) {
      const { density, lowest, highest } = posteriors[i] as Posterior
      const others = othersBelow[i] as number
      const mass = x < lowest || x > highest ? 0 : width * density(x)
      standing.mass += mass
      standing.best += mass * others
      standing.loss += width * (below[i] as number) * (1 - others)
    }
  }
  const chances = standings.map(({ mass, best }) => best / mass)
  const total = chances.reduce((sum, chance) => sum + chance, 0)
  return standings.map(({ loss }, i) => ({
    probability: (chances[i] as number) / total,
    expectedLoss: Math.max(0, loss)
  }))
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
    products[i] = (products[i] as number) * after
    after *= values[i] as number
  }
  return products
}
