import { adjustForComparisons, ANALYSIS_DEFAULTS } from '../../../engines/statistics/analyse-metric.ts'
import type { MetricResults } from './compute-results.ts'

/** One p-value of each comparison, in the order of the variants. */
type PValues = (number | null)[]

/**
 * Corrects all comparisons of all primary metrics together (Holm 1979): the chance of any false alarm among them stays
 * below the level, for the p-values of the end as for those that hold at any time.
 *
 * @param family  The primary metrics; of a single one nothing changes.
 */
export function correctFamily (family: readonly MetricResults[]): MetricResults[] {
  const comparisonsOf = family.map(({ variants }) => variants.map(({ comparison }) => comparison))
  const atTheEnd = adjustTogether(comparisonsOf.map((all) => all.map((each) => each?.frequentist.pValue ?? null)))
  const atAnyTime = adjustTogether(comparisonsOf.map((all) => all.map((each) => each?.sequential.pValue ?? null)))
  const comparisons = atTheEnd.flat().filter((pValue) => pValue !== null).length
  return family.map((results, i) => {
    const variants = results.variants.map((variant, k) => variant.comparison === null
      ? variant
      : {
          ...variant,
          comparison: {
            ...variant.comparison,
            frequentist: { ...variant.comparison.frequentist, adjustedPValue: atTheEnd[i]?.[k] ?? null },
            sequential: { ...variant.comparison.sequential, adjustedPValue: atAnyTime[i]?.[k] ?? null }
          }
        })
    const others = variants.filter(({ key }) => key !== results.baseline).sort((a, b) => b.probability - a.probability)
    const challenger = others.find(({ key }) => key === results.leader) ?? others[0]
    const pValue = challenger?.comparison?.frequentist.adjustedPValue ?? null
    const isRare = pValue !== null && pValue < ANALYSIS_DEFAULTS.pValue
    const isTooLikely = family.length > 1 && results.significant && !isRare
    return {
      ...results, variants, pValue,
      ...isTooLikely && { significant: false, significanceCode: 'high_p_value' as const },
      correction: { method: 'holm' as const, metrics: family.length, comparisons }
    }
  })
}

function adjustTogether (family: readonly PValues[]): PValues[] {
  const adjusted = adjustForComparisons(family.flat())
  return family.map((values, i) => {
    const from = family.slice(0, i).flat().length
    return adjusted.slice(from, from + values.length)
  })
}
