import { shareOf } from '../../platform/rules/apply-rules.ts'
import { IDENTITY_EVENTS } from '../../platform/rules/compile-rule.ts'
import type { RequestContext } from '../capture/envelope.ts'

/**
 * The step that stores a share of the events of a project beyond its quota. The distinct id decides, by the shares of
 * rules: they lie within each other, so of a rule's weight and this one the larger holds, and the sum of weights is
 * right. Who is who is always stored: one person would be two for good.
 *
 * @returns the weight of the event; 0: it is not stored.
 */
export function sampleByQuota (event: string, distinctId: string, { sampleRate = 1 }: RequestContext): number {
  if (sampleRate === 1 || IDENTITY_EVENTS.has(event)) return 1
  return shareOf(distinctId) < sampleRate ? 1 / sampleRate : 0
}
