import { chiSquareUpper, logGamma } from './distributions.ts'

/** People of one variant, and what its share of them was meant to be. */
export interface VariantShare {
  key: string
  exposed: number
  /** Rollout weight, in any unit (percent, for instance); 0 when nobody should see it. */
  weight: number
}

/** Whether people were split as planned. If not, no other number of the experiment can be trusted. */
export interface SampleRatioCheck {
  /** True when the split differs so much that chance explains it less than `threshold` of the time. */
  mismatch: boolean
  /** Of the chi-square test, for one look. `null` when there is nothing to compare. */
  pValue: number | null
  /** Valid however often one looks: the chance that any look ever shows a value as small. */
  sequentialPValue: number | null
  /** Chi-square statistic; `null` when a variant that should have nobody has people. */
  statistic: number | null
  degreesOfFreedom: number
  /** Whether every variant should have at least 5 people, as the chi-square test needs. */
  reliable: boolean
  threshold: number
  variants: { key: string, exposed: number, expected: number }[]
}

/**
 * Strict, as the check is made daily on every experiment and a false alarm stops one, while real mismatches are mostly
 * so large that they pass it at once (Kohavi, Tang and Xu, "Trustworthy Online Controlled Experiments", 2020).
 */
export const SAMPLE_RATIO_THRESHOLD = 0.001

// Expected count per cell from which the chi-square approximation holds (Cochran 1954).
const ENOUGH_EXPECTED = 5

// Strengths of belief in the planned split among the alternatives: from coarse mistakes, seen within tens of people,
// to losses of a fraction of a percent, seen within hundreds of thousands.
const CONCENTRATIONS = [10, 1_000, 100_000]

/**
 * Sample-ratio mismatch by Pearson's chi-square goodness of fit, and by an always-valid test: the Bayes factor of a
 * Dirichlet-multinomial alternative (Lindon and Malek, "Anytime-valid inference for multinomial count data", NeurIPS
 * 2022), averaged over three strengths. The first speaks only when `reliable`; either one alone raises the flag.
 *
 * @throws {RangeError} for counts or weights that are negative, not finite, or when no weight is above zero.
 */
export function checkSampleRatio (
  shares: readonly VariantShare[], threshold: number = SAMPLE_RATIO_THRESHOLD
): SampleRatioCheck {
  for (const { key, exposed, weight } of shares) {
    if (!Number.isSafeInteger(exposed) || exposed < 0) {
      throw new RangeError(`variant ${key}: exposed must be a whole number from 0`)
    }
    if (!Number.isFinite(weight) || weight < 0) throw new RangeError(`variant ${key}: weight must be a number from 0`)
  }
  const totalWeight = shares.reduce((sum, share) => sum + share.weight, 0)
  if (totalWeight <= 0) throw new RangeError('weight: at least one weight must be above 0')
  const people = shares.reduce((sum, share) => sum + share.exposed, 0)
  const variants = shares.map(({ key, exposed, weight }) => ({ key, exposed, expected: people * weight / totalWeight }))
  const planned = variants.filter((_, i) => (shares[i]?.weight ?? 0) > 0)
  const degreesOfFreedom = planned.length - 1
  const reliable = planned.every(({ expected }) => expected >= ENOUGH_EXPECTED)
  const answer = { degreesOfFreedom, reliable, threshold, variants }

  // Somebody in a variant of weight zero cannot be chance.
  if (planned.reduce((sum, { exposed }) => sum + exposed, 0) < people) {
    return { ...answer, mismatch: true, pValue: 0, sequentialPValue: 0, statistic: null }
  }
  if (people === 0 || degreesOfFreedom === 0) {
    return { ...answer, mismatch: false, pValue: null, sequentialPValue: null, statistic: 0 }
  }
  const statistic = planned.reduce((sum, { exposed, expected }) => sum + (exposed - expected) ** 2 / expected, 0)
  const pValue = chiSquareUpper(statistic, degreesOfFreedom)
  const sequentialPValue = multinomialPValue(planned, people)
  const mismatch = (reliable && pValue < threshold) || sequentialPValue < threshold
  return { ...answer, mismatch, pValue, sequentialPValue, statistic }
}

function multinomialPValue (planned: readonly { exposed: number, expected: number }[], people: number): number {
  const logFactors = CONCENTRATIONS.map((strength) => planned.reduce((sum, { exposed, expected }) => {
    const share = expected / people
    return sum + logGamma(strength * share + exposed) - logGamma(strength * share) - exposed * Math.log(share)
  }, logGamma(strength) - logGamma(strength + people)))
  const largest = Math.max(...logFactors)
  const average = logFactors.reduce((sum, factor) => sum + Math.exp(factor - largest), 0) / logFactors.length
  return Math.min(1, Math.exp(-largest) / average)
}
