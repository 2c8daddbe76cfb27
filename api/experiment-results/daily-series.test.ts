import t from 'tap'
import { accumulateDays, analyseDays } from './daily-series.ts'
import type { DailyChange } from './query-metric.ts'

const SETTINGS = { kind: 'mean', baseline: 'control', plannedSampleSize: undefined } as const

function change (variant: string, day: string, values: number[]): DailyChange {
  const sum = values.reduce((total, value) => total + value, 0)
  const sumOfSquares = values.reduce((total, value) => total + value * value, 0)
  return { variant, day, exposed: values.length, measured: values.length, sum, sumOfSquares, steps: [] }
}

t.test('of a long experiment at most 60 days are analysed, the last one always', async (t) => {
  for (const [lastDay, points, first] of [
    ['2026-03-01', 60, '2026-01-01'], ['2026-03-02', 31, '2026-01-01'], ['2026-03-03', 31, '2026-01-02'], ['2027-02-04', 58, '2026-01-01']
  ] as const) {
    const days = accumulateDays([change('control', '2026-01-01', [1, 2, 3])], ['control', 'test'], lastDay)

    const { series } = await analyseDays(days, SETTINGS)

    t.match(series, { length: points })
    t.equal(series[0]?.day, first)
    t.equal(series.at(-1)?.day, lastDay)
  }
})

t.test('other requests get their turn between two days', async (t) => {
  const days = accumulateDays([change('control', '2026-01-01', [1, 2, 3])], ['control', 'test'], '2026-01-20')
  let turns = 0

  const analysed = analyseDays(days, SETTINGS)
  setImmediate(() => { turns++ })
  await analysed

  t.ok(turns > 0)
})

t.test('values of too few people, or all the same, have no interval, and the day says so', async (t) => {
  const reasonsOf = async (values: number[]): Promise<unknown> => {
    const days = accumulateDays(
      [change('control', '2026-01-01', [5, 5, 5]), change('test', '2026-01-01', values)], ['control', 'test'], '2026-01-01')
    const { series } = await analyseDays(days, SETTINGS)
    return series[0]?.variants.map(({ missingInterval }) => missingInterval)
  }

  t.same(await reasonsOf([]), [null, 'variant_not_exposed'])
  t.same(await reasonsOf([5]), [null, 'too_few_values'])
  t.same(await reasonsOf([5, 5]), [null, 'values_do_not_vary'])
  t.same(await reasonsOf([5, 6]), [null, null])
})
