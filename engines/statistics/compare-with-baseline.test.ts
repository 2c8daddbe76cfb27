import t from 'tap'
import { assertNear } from './testing/assert-near.ts'
import { adjustForComparisons } from './compare-with-baseline.ts'

t.test('Holm\'s adjustment agrees with R\'s p.adjust', async (t) => {
  // R 4.2: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm"), p.adjust(c(0.04, 0.001, 0.03, 0.2), "holm")
  assertNear(t, adjustForComparisons([0.01, 0.02, 0.03, 0.04, 0.05]) as number[], [0.05, 0.08, 0.09, 0.09, 0.09])
  assertNear(t, adjustForComparisons([0.04, 0.001, 0.03, 0.2]) as number[], [0.09, 0.004, 0.09, 0.2])
})

t.test('what was not tested does not count as a comparison', async (t) => {
  t.same(adjustForComparisons([null, 0.01, null]), [null, 0.01, null])
  t.same(adjustForComparisons([0.9, 0.8]), [1, 1])
})
