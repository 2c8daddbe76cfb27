import { comparePosteriors } from './bayesian.ts'
import type { Posterior } from './posterior.ts'
import type { MetricKind, Sample } from './variant-statistics.ts'
import { testConditionalCounts, type TestOutcome, testTwoProportions, testWelch } from './frequentist.ts'
import type { VariantComparison } from './metric-analysis.ts'
import { compareSequentially, type SequentialTuning } from './sequential.ts'

/** A variant with data: what was seen of it, and what is believed. */
export interface Candidate {
  sample: Sample
  posterior: Posterior
}

export interface ComparisonSettings extends SequentialTuning {
  kind: MetricKind
  /** How many times more than Poisson counts vary; see `buildSamples`. */
  dispersion: number
}

/**
 * Each variant against the baseline, by every method; `null` for the baseline itself and where either has no data.
 */
export function compareWithBaseline (
  candidates: readonly (Candidate | null)[], baselineIndex: number, settings: ComparisonSettings
): (VariantComparison | null)[] {
  const base = candidates[baselineIndex] ?? null
  if (base === null) return candidates.map(() => null)
  const outcomes = candidates.map((candidate, i) => candidate === null || i === baselineIndex
    ? null
    : runTest(candidate.sample, base.sample, settings))
  const adjusted = adjustForComparisons(outcomes.map((outcome) => outcome?.pValue ?? null))
  return candidates.map((candidate, i) => {
    const outcome = outcomes[i] ?? null
    if (candidate === null || outcome === null) return null
    const { sample, posterior } = candidate
    return {
      absoluteLift: sample.mean - base.sample.mean,
      relativeLift: base.sample.mean > 0 ? sample.mean / base.sample.mean - 1 : null,
      bayesian: comparePosteriors(posterior, base.posterior, settings.level),
      frequentist: {
        ...outcome,
        adjustedPValue: adjusted[i] ?? null,
        reliable: hasEnough(settings.kind, sample) && hasEnough(settings.kind, base.sample)
      },
      sequential: compareSequentially(sample, base.sample, settings)
    }
  })
}

function runTest (sample: Sample, base: Sample, { kind, level, dispersion }: ComparisonSettings): TestOutcome {
  if (kind === 'funnel') return testTwoProportions(sample, base, level)
  if (kind === 'count') return testConditionalCounts(sample, base, level, dispersion)
  return testWelch(sample, base, level)
}

// The rule of thumb for the normal approximation of a proportion; the reference asks the same of means.
const ENOUGH = 5

function hasEnough (kind: MetricKind, { size, sum }: Sample): boolean {
  if (kind === 'funnel') return sum >= ENOUGH && size - sum >= ENOUGH
  return kind === 'count' ? sum >= ENOUGH : size >= ENOUGH
}

/**
 * Holm's step-down adjustment: the chance of any false alarm among all comparisons stays below the level, whatever
 * their dependence (Holm 1979). R: `p.adjust(p, "holm")`. `null` values take no part and stay `null`.
 */
export function adjustForComparisons (pValues: readonly (number | null)[]): (number | null)[] {
  const order = pValues
    .flatMap((pValue, index) => pValue === null ? [] : [{ pValue, index }])
    .sort((a, b) => a.pValue - b.pValue)
  const adjusted: (number | null)[] = pValues.map(() => null)
  let largest = 0
  for (const [rank, { pValue, index }] of order.entries()) {
    largest = Math.max(largest, Math.min(1, (order.length - rank) * pValue))
    adjusted[index] = largest
  }
  return adjusted
}
