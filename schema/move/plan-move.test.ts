import t from 'tap'
import { type DifferingGroup, PIECE_ROWS, planPieces } from './plan-move.ts'

/** A share of a day with some rows on each side, none of them equal. */
function differ (share: number, source: number, target: number): DifferingGroup {
  const side = (rows: number, by: string) => ({ group: 20260101, share, rows, checksum: `${by}${share}`, last: 5 })
  return { group: 20260101, share, source: side(source, 's'), target: side(target, 't') }
}

t.test('pieces are bounded by the rows that they copy, whatever the target has', async (t) => {
  const options = { table: 'events', begun: new Set([20260101]), round: 1 }
  const equalCounts = Array.from({ length: 8 }, (_, share) => differ(share, PIECE_ROWS / 2, PIECE_ROWS / 2))

  for (const isRepeatable of [false, true]) {
    const pieces = planPieces(equalCounts, { ...options, isRepeatable })
    t.same(pieces.map(({ rows, shares, isReplaced }) => [rows, shares, isReplaced]),
      [[0, 1], [2, 3], [4, 5], [6, 7]].map((shares) => [PIECE_ROWS, shares, !isRepeatable]))
  }
  const [first] = planPieces([differ(0, 150, 100)], { ...options, isRepeatable: false, appendable: [{ group: 20260101, share: 0, rows: 100, checksum: 't0', last: 5 }] })
  t.match(first, { rows: 50, isReplaced: false, after: Array }, 'only what the target lacks is appended')
})
