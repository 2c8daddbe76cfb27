/**
 * Ranges of the rows of a message. Records keep them as a flat list of pairs `from, to` (exclusive), ascending: a batch
 * that was sent twice is one pair, not thousands of rows.
 */
export type RowRange = [from: number, to: number]

/** The ranges of such a list within `[from, to)`. */
export function rangesWithin (pairs: readonly number[], from = 0, to = Infinity): RowRange[] {
  const ranges: RowRange[] = []
  for (let i = 0; i + 1 < pairs.length; i += 2) {
    const range: RowRange = [Math.max(pairs[i] ?? 0, from), Math.min(pairs[i + 1] ?? 0, to)]
    if (range[0] < range[1]) ranges.push(range)
  }
  return ranges
}

/** The rows of `[from, to)` that are in none of the ranges. */
export function gapsWithin (pairs: readonly number[], from: number, to: number): RowRange[] {
  const gaps: RowRange[] = []
  let at = from
  for (const [start, end] of rangesWithin(pairs, from, to)) {
    if (start > at) gaps.push([at, start])
    at = Math.max(at, end)
  }
  if (to > at) gaps.push([at, to])
  return gaps
}

/** How many rows they have together. */
export function countRows (ranges: readonly RowRange[]): number {
  return ranges.reduce((sum, [from, to]) => sum + to - from, 0)
}

/** Whether a row is in one of the ranges: whether an odd number of bounds is at or before it. */
export function hasRow (pairs: readonly number[], row: number): boolean {
  let [low, high] = [0, pairs.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((pairs[middle] ?? 0) <= row) low = middle + 1
    else high = middle
  }
  return low % 2 === 1
}

/** The list of ranges for rows in any order. */
export function toPairs (rows: readonly number[]): number[] {
  const ranges: RowRange[] = []
  for (const row of rows.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last === undefined || last[1] < row) ranges.push([row, row + 1])
    else last[1] = Math.max(last[1], row + 1)
  }
  return ranges.flat()
}
