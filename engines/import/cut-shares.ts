/**
 * Shares of a flag as they are served. PostHog, its SDKs and Millrace give each variant the hashes between the sum of
 * the shares before it and the sum with its own (`select_variant` in PostHog's `v1_bucketing.rs`, read 2026-11-29).
 * What lies beyond 100, or below an earlier sum, is never reached, and hashes beyond the last sum get the flag without
 * a variant.
 */
import { fieldsOf, isFields, itemsOf } from '../fields.ts'
import type { Fields } from './posthog-project.ts'

/** Sums of shares such as 33.3 are not exact in binary. */
const TOLERANCE = 1e-6

/**
 * Writes shares that the management API refuses as they are served, so that everybody keeps their value.
 *
 * @param notes  Gets a sentence for each list of shares that changed.
 * @returns the filters of the flag; the same ones when nothing changed.
 */
export function cutShares (filters: Fields, notes: string[]): Record<string, unknown> {
  const cut = { ...filters }
  const { multivariate, holdout } = filters
  for (const name of ['groups', 'super_groups', 'holdout_groups']) {
    if (Array.isArray(filters[name])) cut[name] = filters[name].map((each: unknown) => cutShare(each, 'rollout_percentage', notes))
  }
  if (isFields(holdout)) cut['holdout'] = cutShare(holdout, 'exclusion_percentage', notes)
  if (isFields(multivariate)) cut['multivariate'] = cutVariants(multivariate, notes)
  return cut
}

function cutShare (value: unknown, field: string, notes: string[]): unknown {
  const share = fieldsOf(value)[field]
  if (typeof share !== 'number' || (share >= 0 && share <= 100)) return value
  const served = share > 100 ? 100 : 0
  notes.push(`${field} ${share} is served as ${served}`)
  return { ...fieldsOf(value), [field]: served }
}

function cutVariants (multivariate: Fields, notes: string[]): Fields {
  const variants = itemsOf(multivariate['variants'])
  const shares = variants.map((variant) => fieldsOf(variant)['rollout_percentage'] ?? 0)
  if (variants.length === 0 || !shares.every((share) => typeof share === 'number')) return multivariate
  let [sum, reached] = [0, 0]
  const served = shares.map((share) => {
    sum += share
    const from = reached
    reached = Math.max(from, Math.min(sum, 100))
    // An unchanged share keeps its digits, and so every boundary between two variants stays where it is.
    return Math.abs(reached - from - share) < TOLERANCE ? share : Number((reached - from).toFixed(10))
  })
  const isCut = served.some((share, index) => share !== shares[index])
  const hasRest = 100 - reached > TOLERANCE
  if (!isCut && !hasRest) return multivariate
  const rest = hasRest ? `, and ${Number((100 - reached).toFixed(6))} % on without a variant` : ''
  notes.push(`shares ${shares.join('/')} are served as ${served.join('/')}${rest}`)
  return {
    ...multivariate,
    variants: variants.map((variant, index) => ({ ...fieldsOf(variant), rollout_percentage: served[index] })),
    ...hasRest && { rest_without_variant: true }
  }
}
