import { buildSamples, type Sample } from '../build-samples.ts'
import { testConditionalCounts } from '../frequentist/conditional-count-test.ts'
import { testTwoProportions } from '../frequentist/two-proportion-test.ts'
import { testWelch } from '../frequentist/welch-test.ts'
import { type MetricKind, type VariantStatistics } from '../variant-statistics.ts'

/** p-value of the fixed-horizon test of two variants alone, without the costly rest of an analysis. */
export function runFixedTest (kind: MetricKind, variants: readonly VariantStatistics[]): number {
  const { samples, dispersion } = buildSamples(kind, variants, 'estimated')
  const [control, test] = samples as [Sample, Sample]
  const outcome = kind === 'funnel'
    ? testTwoProportions(test, control, 0.95)
    : kind === 'count' ? testConditionalCounts(test, control, 0.95, dispersion) : testWelch(test, control, 0.95)
  return outcome.pValue ?? 1
}
