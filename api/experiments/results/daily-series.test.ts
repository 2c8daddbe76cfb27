import t from 'tap'
import { accumulateDays, analyseDays } from './daily-series.ts'
import type { Measurement } from './query-metric.ts'
import { readMetric } from './read-metric.ts'

const SETTINGS = { kind: 'mean', baseline: 'control' } as const

const MEAN = readMetric('filters', { metric: { kind: 'mean', event: 'paid', property: 'amount' } })!
const KEYS = { keys: ['control', 'test'], lookback: 0 }

const DAY_MS = 86_400_000

/** Values by variant, all of the first day and held until the last one. */
function measured (values: Record<string, number[]>, firstDay: string, lastDay: string): Measurement {
  const days = { first: Date.parse(firstDay) / DAY_MS, last: Date.parse(lastDay) / DAY_MS }
  const groups = Object.entries(values).filter(([, { length }]) => length > 0)
  return {
    days,
    changes: groups.map(([variant, { length }]) => ({
      variant, day: 0, exposed: length, sawSeveral: 0, steps: [], had: { exposed: 0, converted: 0 }
    })),
    quantiles: [],
    caps: [],
    blocks: groups.map(([variant, group]) => {
      const sum = group.reduce((total, value) => total + value, 0)
      const deviations = group.reduce((total, value) => total + (value - sum / group.length) ** 2, 0)
      return { variant, level: 20, block: 0, people: group.length, sums: [sum], products: [deviations] }
    })
  }
}

t.test('of a long experiment at most 60 days are analysed, the last one always', async (t) => {
  for (const [lastDay, points, first] of [
    ['2026-03-01', 60, '2026-01-01'], ['2026-03-02', 31, '2026-01-01'], ['2026-03-03', 31, '2026-01-02'], ['2027-02-04', 58, '2026-01-01']
  ] as const) {
    const days = accumulateDays(MEAN, measured({ control: [1, 2, 3] }, '2026-01-01', lastDay), KEYS)

    const { series } = await analyseDays(days, SETTINGS)

    t.match(series, { length: points })
    t.equal(series[0]?.day, first)
    t.equal(series.at(-1)?.day, lastDay)
  }
})

t.test('other requests get their turn between two days', async (t) => {
  const days = accumulateDays(MEAN, measured({ control: [1, 2, 3] }, '2026-01-01', '2026-01-20'), KEYS)
  let turns = 0

  const analysed = analyseDays(days, SETTINGS)
  setImmediate(() => { turns++ })
  await analysed

  t.ok(turns > 0)
})

t.test('values of too few people, or all the same, have no interval, and the day says so', async (t) => {
  const reasonsOf = async (values: number[]): Promise<unknown> => {
    const days = accumulateDays(MEAN, measured({ control: [5, 5, 5], test: values }, '2026-01-01', '2026-01-01'), KEYS)
    const { series } = await analyseDays(days, SETTINGS)
    return series[0]?.variants.map(({ missingInterval }) => missingInterval)
  }

  t.same(await reasonsOf([]), [null, 'variant_not_exposed'])
  t.same(await reasonsOf([5]), [null, 'too_few_values'])
  t.same(await reasonsOf([5, 5]), [null, 'values_do_not_vary'])
  t.same(await reasonsOf([5, 6]), [null, null])
})
