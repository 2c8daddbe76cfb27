import type { MetricAnalysis } from '../../../engines/statistics/analyse-metric.ts'
import type { Metric } from './read-metric.ts'

export const GUARDRAIL_VERDICTS = ['holds', 'harmed', 'unclear'] as const

/**
 * Whether each variant is at most `margin` worse than the baseline (non-inferiority): it holds when the whole interval
 * of the relative lift is better than the margin, and is harmed when all of it is worse (ICH E9, 3.3.2; the 95 %
 * interval makes a one-sided test at 2.5 %). At any look by the always-valid interval, at the end by the other.
 */
export function judgeGuardrail ({ role, margin, isIncreaseGood }: Metric, { variants }: MetricAnalysis) {
  if (role !== 'guardrail') return null
  const judge = (interval: readonly [number, number] | null | undefined): typeof GUARDRAIL_VERDICTS[number] => {
    if (interval == null) return 'unclear'
    const [worst, best] = isIncreaseGood ? interval : [-interval[1], -interval[0]]
    if (worst > -margin) return 'holds'
    return best < -margin ? 'harmed' : 'unclear'
  }
  return {
    margin: margin * 100,
    goal: isIncreaseGood ? 'increase' : 'decrease',
    variants: variants.flatMap(({ key, comparison }) => {
      if (comparison === null) return []
      const { frequentist, sequential } = comparison
      return [{ key, atTheEnd: judge(frequentist.relativeInterval), atAnyTime: judge(sequential.relativeInterval) }]
    })
  }
}
