import { ratioOf, type Figure } from './question.ts'

/** How much a ratio may move before it counts as a change; two runs on a shared machine differ by 10 to 15 %. */
const TOLERANCE = 0.2

/**
 * The figures that got worse than in an earlier run. Only ratios are compared: times of two runs on shared machines
 * say nothing. What is better for a figure follows from its target; figures without one are not judged.
 */
export function compareResults (baseline: ReadonlyMap<string, Figure>, now: ReadonlyMap<string, Figure>): string[] {
  const worse = []
  for (const [name, figure] of now) {
    const before = baseline.get(name)
    const ratio = ratioOf(figure)
    const ratioBefore = before === undefined ? undefined : ratioOf(before)
    if (ratio === undefined || ratioBefore === undefined || figure.target === undefined) continue
    const change = ratio / ratioBefore
    if ('atMost' in figure.target ? change > 1 + TOLERANCE : change < 1 - TOLERANCE) {
      worse.push(`${name}: ratio ${ratio.toFixed(2)}, was ${ratioBefore.toFixed(2)}`)
    }
  }
  return worse
}
