/** Several values of each person, summed up: people, sums, and products of deviations from the means. */
export interface Moments {
  people: number
  /** Of each value, over all people. */
  sums: number[]
  /** Row by row, each pair of values once: (0,0), (0,1), ..., (1,1), ...: the sum of both deviations multiplied. */
  products: number[]
}

/** Pairs of this number of values, in the order of `products`. */
export function pairsOf (size: number): [i: number, j: number][] {
  const indexes = Array.from({ length: size }, (_, i) => i)
  return indexes.flatMap((i) => indexes.slice(i).map((j): [number, number] => [i, j]))
}

/** People who all have the same values. */
export function alike (people: number, values: readonly number[]): Moments {
  return { people, sums: values.map((value) => people * value), products: pairsOf(values.length).map(() => 0) }
}

export const NOBODY: Moments = { people: 0, sums: [], products: [] }

/**
 * Two groups of people as one (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979). Nothing cancels: products are taken of differences between means only.
 */
export function combine (some: Moments, others: Moments): Moments {
  if (some.people === 0) return others
  if (others.people === 0) return some
  const people = some.people + others.people
  const apart = some.sums.map((sum, i) => sum / some.people - (others.sums[i] ?? 0) / others.people)
  return {
    people,
    sums: some.sums.map((sum, i) => sum + (others.sums[i] ?? 0)),
    products: pairsOf(some.sums.length).map(([i, j], at) => (some.products[at] ?? 0) + (others.products[at] ?? 0) +
      (apart[i] ?? 0) * (apart[j] ?? 0) * some.people * (others.people / people))
  }
}

/** A value computed from the others: the factor of each. */
export type Combination = readonly number[]

/** Mean of a combination of values. */
export function meanOf ({ people, sums }: Moments, factors: Combination): number {
  return sums.reduce((total, sum, i) => total + (factors[i] ?? 0) * sum, 0) / people
}

/** Sum of the products of deviations of two combinations. */
export function productOf ({ sums, products }: Moments, some: Combination, others: Combination): number {
  return pairsOf(sums.length).reduce((total, [i, j], at) => {
    const [si = 0, sj = 0, oi = 0, oj = 0] = [some[i], some[j], others[i], others[j]]
    return total + (products[at] ?? 0) * (i === j ? si * oi : si * oj + sj * oi)
  }, 0)
}
