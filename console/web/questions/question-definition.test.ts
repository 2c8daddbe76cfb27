import t from 'tap'
import { describeComparison, meanReturn, type TrendLine } from './question-definition.ts'

const line: TrendLine = { series: 0, name: 'paid', part: 'all', value: null, values: [], total: 0, left_out: 0 }
const points = ['2026-08-01', '2026-09-01'].map((start) => ({ start, is_partial: false, is_removed: false }))
const berlin = (to: string, values: number[][], from = '2026-07-31T22:00:00.000Z'): string =>
  describeComparison({ from, to, points, lines: values.map((each) => ({ ...line, values: each })) }, '2026-10-01', 'Europe/Berlin')

t.test('a comparison says which days it is about, by the calendar of the project', async (t) => {
  t.equal(berlin('2026-09-30T22:00:00.000Z', [[1, 2]]), 'Before: 2026-08-01 to 2026-09-30.')
})

t.test('of a range that is still running, it says where the previous period stops, and why', async (t) => {
  t.equal(berlin('2026-09-27T19:45:00.000Z', [[1, 2]]),
    'Before: 2026-08-01 to 2026-09-27 21:45. The range is still running, so the previous period stops at the same point.')
})

t.test('it shows since when any line has values, or that no line has', async (t) => {
  t.match(berlin('2026-09-30T22:00:00.000Z', [[0, 0], [0, 3]]), / Its first values are of 2026-09-01: it had nothing earlier\.$/)
  for (const none of [[], [[0, 0]]]) t.match(berlin('2026-09-30T22:00:00.000Z', none), / No event of that time matches, so there is nothing to compare with\.$/)
})

t.test('it says that retention removed what came before its first values, or all of it', async (t) => {
  const removed = (from: number): string => describeComparison({
    from: '2026-07-31T22:00:00.000Z', to: '2026-09-30T22:00:00.000Z', points: points.map((point, index) => ({ ...point, is_removed: index < from })),
    lines: [{ ...line, values: [null, 0].fill(null, 0, from) }]
  }, '2026-10-01', 'Europe/Berlin')

  t.match(removed(1), / It has values from 2026-09-01: retention removed earlier events\.$/)
  t.match(removed(2), / Retention removed its events, so no comparison is possible\.$/)
})
t.test('a mean of those who came back weighs each period by its people, and leaves out those who had no whole period yet', async (t) => {
  const cohort = (people: number | null, ...returned: (number | null)[]) => ({
    start: '2026-01-01', people, returned: returned.map((back, at) => ({ people: back, is_partial: at === returned.length - 1 }))
  })
  const all = [cohort(100, 100, 50, 20, 7), cohort(300, 300, 30, 3), cohort(9, 9, 9), cohort(null, null, null, null)]
  t.same(meanReturn(all), [1, 0.2, 0.2, null])
  t.same(meanReturn([]), [])
})
