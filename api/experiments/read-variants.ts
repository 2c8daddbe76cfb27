import { type Variant } from '../flags/flag-definition.ts'
import { invalidExperiment } from './experiment-errors.ts'

export const DEFAULT_VARIANTS: readonly Variant[] = [
  { key: 'control', name: 'Control', rollout_percentage: 50 },
  { key: 'test', name: 'Test', rollout_percentage: 50 }
]

const ATTR = 'parameters__feature_flag_variants'

/** The reference's limit; its clients know the sentence. */
const TOO_MANY = 11

/**
 * Reads the variants a client asks for in `parameters.feature_flag_variants`.
 *
 * @returns undefined when it named none.
 * @throws {HttpError} 400 with the words of docs/contract/sdks.md 4.2.
 */
export function readVariants (parameters: Record<string, unknown> | null | undefined): Variant[] | undefined {
  const value = parameters?.['feature_flag_variants']
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value)) throw invalidExperiment(ATTR, 'feature_flag_variants must be an array of variants.')
  const variants = value.map(readVariant)
  if (variants.length >= TOO_MANY) throw invalidExperiment(ATTR, 'Feature flag variants must be less than 11')
  if (!variants.some(({ key }) => key === 'control')) {
    throw invalidExperiment(ATTR, 'Feature flag variants must contain a control variant')
  }
  if (variants.length < 2) {
    throw invalidExperiment(ATTR, 'Feature flag must have at least 2 variants (control and at least one test variant)')
  }
  if (new Set(variants.map(({ key }) => key)).size < variants.length) {
    throw invalidExperiment(ATTR, 'Feature flag variants must have different keys.')
  }
  const sum = variants.reduce((total, variant) => total + variant.rollout_percentage, 0)
  // Sums such as that of 33.3, 33.3 and 33.4 are not exact in binary.
  if (Math.abs(sum - 100) > 1e-6) {
    throw invalidExperiment(ATTR, 'Invalid variant definitions: Variant rollout percentages must sum to 100.')
  }
  return variants
}

function readVariant (value: unknown, index: number): Variant {
  const { key, name, rollout_percentage: percentage } = Object(value) as Record<string, unknown>
  const attr = `${ATTR}__${index}`
  if (typeof key !== 'string' || !/^[A-Za-z0-9_-]{1,400}$/.test(key)) {
    throw invalidExperiment(`${attr}__key`, 'key of a variant must be letters, numbers, hyphens and underscores.')
  }
  if (typeof percentage !== 'number' || percentage < 0 || percentage > 100) {
    throw invalidExperiment(`${attr}__rollout_percentage`, 'rollout_percentage of a variant must be a number from 0 to 100.')
  }
  return { key, ...(typeof name === 'string' ? { name } : {}), rollout_percentage: percentage }
}
