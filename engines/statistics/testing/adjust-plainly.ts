/** What `adjust-means.ts` computes from sums, once more from each person, by other formulas. */
import type { Adjusted } from '../adjust-means.ts'

export interface Person {
  variant: string
  /** The value; of a ratio numerator and denominator. */
  values: number[]
  /** The same before the exposure; zeros for who did nothing. */
  before: number[]
}

const average = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

/**
 * A regression of each person's (linearised) value on one dummy a variant and the covariates, by orthogonalising the
 * columns one after the other (modified Gram and Schmidt): the coefficient of a covariate is its slope, and the rest is
 * the rest of each value.
 */
export function adjustPlainly (people: readonly Person[], keys: readonly string[], isRatio: boolean): Adjusted[] {
  const hasPast = people.some(({ before }) => before.some((value) => value !== 0))
  const totals = [0, 1].map((at) => people.reduce((sum, { before }) => sum + (before[at] ?? 0), 0))
  const covariates = hasPast
    ? [
        people.map(({ before: [x = 0, below = 0] }) => isRatio ? x - below * totals[0]! / totals[1]! : x),
        people.map(({ before }) => Number(before.some((value) => value !== 0)))
      ]
    : []
  const means = new Map(keys.map((key) => {
    const own = people.filter(({ variant }) => variant === key)
    return [key, [0, 1].map((at) => average(own.map(({ values }) => values[at] ?? 0)))]
  }))
  const linear = people.map(({ variant, values: [y = 0, d = 0] }) => {
    const [above = 0, below = 0] = means.get(variant)!
    return isRatio ? (y - above / below * d) / below : y
  })
  const centred = [...covariates, linear].map((column) => {
    const middle = new Map(keys.map((key) => [key, average(column.filter((_, i) => people[i]!.variant === key))]))
    return column.map((value, i) => value - middle.get(people[i]!.variant)!)
  })
  const basis: number[][] = []
  const dot = (a: number[], b: number[]): number => a.reduce((sum, value, i) => sum + value * b[i]!, 0)
  const without = (column: number[]): number[] => basis.reduce((rest, unit) => {
    const along = dot(rest, unit)
    return rest.map((value, i) => value - along * unit[i]!)
  }, column)
  for (const column of centred.slice(0, -1)) {
    const rest = without(without(column))
    const length = Math.sqrt(dot(rest, rest))
    if (length > 1e-7 * Math.sqrt(dot(column, column))) basis.push(rest.map((value) => value / length))
  }
  const residual = without(without(centred.at(-1)!))
  const slopes = solveByCramer(centred)
  return keys.map((key) => {
    const own = people.map(({ variant }) => variant === key)
    const of = (column: readonly number[]): number[] => column.filter((_, i) => own[i])
    const shift = covariates.reduce((sum, column, k) => sum + slopes[k]! * (average(of(column)) - average(column)), 0)
    const [above = 0, below = 0] = means.get(key)!
    const raw = isRatio ? above / below : above
    const spent = (people.length - keys.length) / (people.length - keys.length - basis.length)
    const left = of(residual)
    return { mean: raw - shift, squaredError: dot(left, left) / (left.length - 1) / left.length * spent }
  })
}

/** Slopes of the last column on one or two others, all of them centred. */
function solveByCramer (columns: readonly number[][]): number[] {
  const dot = (a: number, b: number): number => columns[a]!.reduce((sum, value, i) => sum + value * columns[b]![i]!, 0)
  if (columns.length < 2) return []
  const [aa, ay] = [dot(0, 0), dot(0, columns.length - 1)]
  if (columns.length === 2) return [ay / aa]
  const [ab, bb, by] = [dot(0, 1), dot(1, 1), dot(1, 2)]
  const determinant = aa * bb - ab * ab
  if (determinant <= 1e-9 * aa * bb) return [ay / aa, 0]
  return [(ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant]
}

/** The quantile of a list, and its error by the slope between its binomial bounds at 95 %. */
export function quantilePlainly (values: readonly number[], quantile: number): Adjusted {
  const z = 1.959963984540054
  const sorted = [...values].sort((a, b) => a - b)
  const reach = z * Math.sqrt(sorted.length * quantile * (1 - quantile))
  const at = (rank: number): number => sorted[Math.min(Math.max(rank, 1), sorted.length) - 1]!
  const middle = sorted.length * quantile
  const [low, high] = [Math.max(Math.floor(middle - reach), 1), Math.min(Math.ceil(middle + reach) + 1, sorted.length)]
  const slope = (at(high) - at(low)) / Math.max(high - low, 1)
  return { mean: at(Math.ceil(middle)), squaredError: slope ** 2 * middle * (1 - quantile) }
}
