import { comparePosteriors, rankPosteriors, type Standing } from './bayesian.ts'
import { testConditionalCounts, type TestOutcome, testTwoProportions, testWelch } from './frequentist.ts'
import { decideSignificance, type SignificanceLimits } from './decide-significance.ts'
import {
  buildBetaPosterior, buildGammaPosterior, buildNormalPosterior, credibleInterval, INNER_LEVEL, type Posterior
} from './posterior.ts'
import { compareSequentially, type SequentialTuning } from './sequential.ts'
import {
  buildSamples, checkVariants, isAdjusted, type MetricKind, type Sample, type VariantStatistics
} from './variant-statistics.ts'

/** One metric of an experiment at one moment. */
export interface MetricData {
  kind: MetricKind
  /** One for every variant of the flag, also for those nobody was exposed to yet (with zeros). */
  variants: readonly VariantStatistics[]
  /** Key of the variant to compare with. Default: `control`, else the first. */
  baseline?: string
  options?: Partial<AnalysisOptions>
}

export interface AnalysisOptions extends SignificanceLimits {
  /** Of all intervals. Default 0.95. */
  confidenceLevel: number
  /**
   * People, both variants together, at which the sequential intervals are narrowest. Best the planned sample size;
   * must not be chosen from the data. Default 5,000.
   */
  sequentialTunedFor: number
  /** Whether more is better. */
  isIncreaseGood: boolean
}

/** The limits are those of the reference (100 people, 0.9, 1 %, 0.05). */
export const ANALYSIS_DEFAULTS: AnalysisOptions = {
  minimumExposure: 100,
  winProbability: 0.9,
  expectedLoss: 0.01,
  pValue: 0.05,
  confidenceLevel: 0.95,
  sequentialTunedFor: 5_000,
  isIncreaseGood: true
}

/**
 * Everything known of one metric of an experiment. `docs/change/experiment-statistics.md` explains each number, and the
 * OpenAPI document each field (`api/experiments/results/metric-results.ts`).
 */
export type MetricAnalysis = ReturnType<typeof analyseMetric>
export type VariantAnalysis = ReturnType<typeof describeVariant>
export type VariantComparison = NonNullable<ReturnType<typeof compareWithBaseline>[number]>

/**
 * Analyses one metric: who is probably best, how sure that is, and the difference of each variant to the baseline by
 * Bayesian, frequentist and always-valid methods. Pure and exact up to rounding: the same sums give the same answer.
 *
 * @throws {RangeError} for numbers that no data can give (a negative count, more conversions than people, a baseline
 *   that is not among the variants, a confidence level of 1). Thin data does not throw: unknown values are `null`.
 */
export function analyseMetric ({ kind, variants, baseline, options }: MetricData) {
  const settings = { ...ANALYSIS_DEFAULTS, ...options }
  checkVariants(kind, variants)
  const { confidenceLevel, sequentialTunedFor } = settings
  if (!(confidenceLevel > 0 && confidenceLevel < 1)) throw new RangeError('confidenceLevel must be between 0 and 1')
  if (!(sequentialTunedFor > 0)) throw new RangeError('sequentialTunedFor must be above 0')
  const baselineIndex = findBaseline(variants, baseline)
  const { samples, dispersion } = buildSamples(kind, variants)
  const model = isAdjusted(variants) ? 'mean' : kind
  const candidates = samples.map((sample) => sample && {
    sample, posterior: buildPosterior(model, sample, dispersion)
  })
  const standings = rankKnown(candidates.map((candidate) => candidate?.posterior ?? null), settings.isIncreaseGood)
  const comparisons = compareWithBaseline(candidates, baselineIndex, {
    kind: model, dispersion, level: confidenceLevel, tunedFor: sequentialTunedFor
  })

  const leaderIndex = indexOfHighest(standings.map((standing) => standing.probability))
  const challengerIndex = leaderIndex !== baselineIndex
    ? leaderIndex
    : indexOfHighest(standings.map(({ probability }, i) => i === baselineIndex ? -1 : probability))
  const leader = pick(standings, leaderIndex)
  const pValue = comparisons[challengerIndex]?.frequentist.adjustedPValue ?? null
  const significanceCode = decideSignificance({
    kind,
    smallestExposure: Math.min(...variants.map(({ exposed, measured = exposed }) => measured)),
    variantCount: variants.length,
    baselineProbability: pick(standings, baselineIndex).probability,
    leaderLoss: leader.expectedLoss,
    leaderPValue: pValue
  }, settings)

  return {
    kind,
    baseline: pick(variants, baselineIndex).key,
    variants: variants.map((variant, i) => describeVariant(
      variant, candidates[i] ?? null, pick(standings, i), comparisons[i] ?? null, confidenceLevel)),
    leader: pick(variants, leaderIndex).key,
    significant: significanceCode === 'significant',
    significanceCode,
    expectedLoss: leader.expectedLoss,
    pValue,
    dispersion,
    confidenceLevel,
    innerLevel: INNER_LEVEL
  }
}

function findBaseline (variants: readonly VariantStatistics[], key: string | undefined): number {
  const index = variants.findIndex((variant) => variant.key === (key ?? 'control'))
  if (index === -1 && key !== undefined) throw new RangeError(`baseline: no variant is called ${key}`)
  return Math.max(index, 0)
}

function buildPosterior (kind: MetricKind, sample: Sample, dispersion: number): Posterior {
  if (kind === 'funnel') return buildBetaPosterior(sample.sum, sample.size)
  if (kind === 'count') return buildGammaPosterior(sample.sum, sample.size, dispersion)
  return buildNormalPosterior(sample.mean, sample.squaredError)
}

type Ranked = Pick<Standing, 'probability'> & { expectedLoss: number | null }

/** Of a variant without data nothing is known, so it is as likely to be best as any; the rest is shared by the data. */
function rankKnown (posteriors: readonly (Posterior | null)[], isIncreaseGood: boolean): Ranked[] {
  const known = posteriors.filter((posterior) => posterior !== null)
  const standings = rankPosteriors(known, isIncreaseGood)
  return posteriors.map((posterior) => {
    if (posterior === null) return { probability: 1 / posteriors.length, expectedLoss: null }
    const { probability, expectedLoss } = pick(standings, known.indexOf(posterior))
    return { probability: probability * known.length / posteriors.length, expectedLoss }
  })
}

function describeVariant (
  variant: VariantStatistics, candidate: Candidate | null, ranked: Ranked, comparison: VariantComparison | null,
  level: number
) {
  const measured = variant.measured ?? variant.exposed
  return {
    key: variant.key,
    exposed: variant.exposed,
    measured,
    sum: variant.sum,
    mean: variant.adjusted !== undefined || measured === 0 ? variant.adjusted?.mean ?? null : variant.sum / measured,
    standardError: candidate && Math.sqrt(candidate.sample.squaredError),
    ...ranked,
    credibleInterval: candidate && credibleInterval(candidate.posterior, level),
    innerCredibleInterval: candidate && credibleInterval(candidate.posterior, INNER_LEVEL),
    comparison
  }
}

function pick<T> (list: readonly T[], index: number): T {
  const found = list[index]
  if (found === undefined) throw new RangeError(`there is no item ${index} of ${list.length}`)
  return found
}

function indexOfHighest (values: readonly number[]): number {
  return values.reduce((best, value, i) => value > (values[best] ?? -Infinity) ? i : best, 0)
}

/** A variant with data: its observations and its posterior. */
interface Candidate {
  sample: Sample
  posterior: Posterior
}

interface ComparisonSettings extends SequentialTuning {
  kind: MetricKind
  /** How many times more than Poisson counts vary; see `buildSamples`. */
  dispersion: number
}

/**
 * Each variant against the baseline, by every method; `null` for the baseline itself and where either has no data.
 */
function compareWithBaseline (
  candidates: readonly (Candidate | null)[], baselineIndex: number, settings: ComparisonSettings
) {
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
