import { ratioOf, type Figure } from './question.ts'

/**
 * By how much a ratio may grow or shrink before it counts as a change. Medians of several runs on a shared machine
 * differ by 10 to 15 %. Single measurements were up to 1.84 times one another's.
 */
const TOLERATED_FACTOR = { median: 1.2, single: 2 }

/** A ratio in two runs. */
export interface Comparison {
  name: string
  before: number
  now: number
  verdict: 'worse' | 'better' | 'alike'
}

/**
 * Compares every ratio that both runs have and that has a target, which says what is better. Times and rates are not
 * compared: those of two runs on shared machines say nothing.
 *
 * @param options.isSingle  The figures are single measurements, as those of quick runs are, not medians.
 */
export function compareResults (
  baseline: ReadonlyMap<string, Figure>, now: ReadonlyMap<string, Figure>, { isSingle }: { isSingle: boolean }
): Comparison[] {
  const factor = isSingle ? TOLERATED_FACTOR.single : TOLERATED_FACTOR.median
  return [...now].flatMap(([name, figure]): Comparison[] => {
    const before = baseline.get(name)
    const ratio = ratioOf(figure)
    const ratioBefore = before === undefined ? undefined : ratioOf(before)
    if (ratio === undefined || ratioBefore === undefined || figure.target === undefined) return []
    const growth = 'atMost' in figure.target ? ratio / ratioBefore : ratioBefore / ratio
    const verdict = growth > factor ? 'worse' : growth < 1 / factor ? 'better' : 'alike'
    return [{ name, before: ratioBefore, now: ratio, verdict }]
  })
}

/** For people: a line for each ratio, the worse ones marked. */
export function renderComparisons (comparisons: readonly Comparison[]): string {
  const width = Math.max(...comparisons.map(({ name }) => name.length))
  return comparisons.map(({ name, before, now, verdict }) =>
    `${verdict.padEnd(6)}  ${name.padEnd(width)}  was ${before.toFixed(2)}, is ${now.toFixed(2)}\n`).join('')
}
