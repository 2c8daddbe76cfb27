/** Where to look for a quantile. */
export interface QuantileSearch {
  /** A first guess. */
  guess: number
  /** About one standard deviation: the first step of the search, and the unit of its precision. */
  scale: number
  /** Ends of the distribution's range. Default: none. */
  lowest?: number
  highest?: number
}

// Regula falsi gains a digit in two to three evaluations; a bracket halved 200 times is as narrow as numbers get.
const MAX_EVALUATIONS = 200
const RELATIVE_WIDTH = 1e-11

/**
 * The point at which a cumulative distribution reaches `probability`: a bracket grown around the guess, then regula
 * falsi in its Illinois form, which keeps the root inside the bracket.
 *
 * Own code because the inverse functions of the library fail for shapes of 1e8 (gamma) and near one (beta).
 */
export function findQuantile (
  cumulative: (x: number) => number, probability: number, search: QuantileSearch
): number {
  const { guess, scale, lowest = -Infinity, highest = Infinity } = search
  const excess = (x: number) => cumulative(x) - probability
  let low = expand(guess, -scale, lowest, (x) => excess(x) > 0)
  let high = expand(guess, scale, highest, (x) => excess(x) < 0)
  let below = excess(low)
  let above = excess(high)
  let side = 0

  for (let step = 0; step < MAX_EVALUATIONS && high - low > RELATIVE_WIDTH * scale; step++) {
    // Every fourth step halves: distributions flat at one end would otherwise crawl.
    const fraction = step % 4 === 3 || above === below ? 0.5 : -below / (above - below)
    const middle = low + (high - low) * Math.min(Math.max(fraction, 0), 1)
    const value = excess(middle)
    if (value === 0 || middle === low || middle === high) return middle
    if (value < 0) {
      low = middle
      below = value
      if (side === -1) above /= 2
      side = -1
    } else {
      high = middle
      above = value
      if (side === 1) below /= 2
      side = 1
    }
  }
  return (low + high) / 2
}

function expand (from: number, firstStep: number, end: number, isTooClose: (x: number) => boolean): number {
  let x = clamp(from, firstStep, end)
  let step = firstStep
  for (let tries = 0; tries < MAX_EVALUATIONS && x !== end && isTooClose(x); tries++) {
    x = clamp(x + step, firstStep, end)
    step *= 2
  }
  return x
}

function clamp (x: number, direction: number, end: number): number {
  return direction < 0 ? Math.max(x, end) : Math.min(x, end)
}
