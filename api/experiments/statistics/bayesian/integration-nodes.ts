/** Points and widths such that the integral of f is nearly the sum of `f(points[i]) * widths[i]`. */
export interface IntegrationNodes {
  points: number[]
  widths: number[]
}

// Eight points integrate a polynomial of degree 15 exactly; panels of 1.5 standard deviations then keep 10 digits.
const POINTS_PER_PANEL = 8

const legendre = buildLegendreRule(POINTS_PER_PANEL)

/** Gauss-Legendre quadrature over the panels between breakpoints, which may come in any order and repeat. */
export function buildIntegrationNodes (breakpoints: readonly number[]): IntegrationNodes {
  const ends = [...new Set(breakpoints)].sort((a, b) => a - b)
  const nodes: IntegrationNodes = { points: [], widths: [] }
  for (let i = 1; i < ends.length; i++) {
    const low = ends[i - 1] as number
    const half = ((ends[i] as number) - low) / 2
    for (const { point, weight } of legendre) {
      nodes.points.push(low + half * (1 + point))
      nodes.widths.push(half * weight)
    }
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
