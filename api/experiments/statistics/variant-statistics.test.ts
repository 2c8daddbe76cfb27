import t from 'tap'
import { checkVariants, type MetricKind, type VariantStatistics } from './variant-statistics.ts'

t.test('numbers that no data can give are refused with the variant and the field', async (t) => {
  const cases: [MetricKind, Partial<VariantStatistics>, RegExp][] = [
    ['funnel', { exposed: -1 }, /variant test: exposed/],
    ['funnel', { exposed: 1.5 }, /exposed/],
    ['funnel', { exposed: NaN }, /exposed/],
    ['funnel', { exposed: 10, sum: 11 }, /sum/],
    ['funnel', { exposed: 10, sum: 0.5 }, /sum/],
    ['funnel', { exposed: 10, measured: 11 }, /measured/],
    ['count', { exposed: 10, sum: -1 }, /sum/],
    ['count', { exposed: 0, sum: 3 }, /sum/],
    ['sum', { exposed: 10, sum: Infinity, sumOfSquares: 1 }, /sum/],
    ['sum', { exposed: 10, sum: 1 }, /sumOfSquares/],
    ['sum', { exposed: 10, sum: 10, sumOfSquares: 5 }, /sumOfSquares/],
    ['mean', { exposed: 10, sum: 10, sumOfSquares: NaN }, /sumOfSquares/]
  ]
  for (const [kind, fields, message] of cases) {
    t.throws(() => checkVariants(kind, [{ key: 'test', exposed: 0, sum: 0, ...fields }]), message, JSON.stringify(fields))
  }
  t.throws(() => checkVariants('funnel', []), /variants/)
  t.throws(() => checkVariants('funnel', [{ key: 'a', exposed: 1, sum: 1 }, { key: 'a', exposed: 1, sum: 1 }]), /keys/)
})

t.test('thin, negative and huge data are accepted', async (t) => {
  checkVariants('funnel', [{ key: 'a', exposed: 0, sum: 0 }])
  checkVariants('count', [{ key: 'a', exposed: 1e9, sum: 3e9, sumOfSquares: 3e10 }])
  checkVariants('sum', [{ key: 'a', exposed: 3, sum: -30, sumOfSquares: 300 }])
  t.pass()
})
