import { drop, type Dropped, NO_RULES, type RequestContext } from '../event.ts'
import { withoutDeepProperties } from '../../engines/body/property-depth.ts'
import { type ActiveRule, applyRules, shareOf } from '../../engines/rules/apply-rules.ts'
import { type EditAddress, IDENTITY_EVENTS } from '../../engines/rules/compile-rule.ts'

/** An event as it would be stored, and the address that was sent. */
interface CheckedEvent {
  event: string
  distinctId: string
  properties: Record<string, unknown>
  /** The property `$ip` as it was sent; the address of the connection stands for none. */
  sentIp: unknown
}

/** What rules and quota leave of an event that is stored. */
export interface Enforced {
  kind: 'enforced'
  properties: Record<string, unknown>
  /** Names of properties that were nested too deep. */
  deep: readonly string[]
  /** How many events it stands for. */
  weight: number
  /** How the address of the client is cut before it is stored as `$ip`; null: not at all. */
  editAddress: EditAddress | null
  changedBy: readonly ActiveRule[]
}

const NONE: readonly string[] = []

/**
 * The step of rules and quota, for projects that have rules or are beyond their quota. Rules see the address of the
 * client also when it is not stored.
 *
 * Beyond a quota, the share of the distinct id decides, as for rules. The samples are nested, so the larger of the two
 * weights is the right one. Identity events are never sampled: without them one person would stay two.
 */
export function enforceRulesAndQuota (checked: CheckedEvent, context: RequestContext): Enforced | Dropped {
  const { event, distinctId, sentIp } = checked
  const { project: { rules }, receivedAt, sampleRate = 1 } = context
  let enforced: Enforced = {
    kind: 'enforced', properties: checked.properties, deep: NONE, weight: 1, editAddress: null, changedBy: NO_RULES
  }
  if (rules !== undefined) {
    // Rules match the stored form, because predictions have nothing else.
    const { properties, dropped: deep } = withoutDeepProperties(checked.properties)
    const ruled = applyRules(rules.rules, {
      event, distinctId, properties, receivedAt, ip: addressOf(sentIp, context)
    }, 'sent')
    if (ruled !== null && ruled.kind !== 'stored') {
      return drop(ruled.kind === 'dropped' ? 'rule_dropped' : 'rule_sampled', { rule: ruled.rule })
    }
    enforced = ruled === null
      ? { ...enforced, properties, deep }
      : { kind: 'enforced', properties: ruled.properties, deep, weight: ruled.weight, editAddress: ruled.editAddress, changedBy: ruled.changedBy }
  }
  if (sampleRate < 1 && !IDENTITY_EVENTS.has(event)) {
    if (shareOf(distinctId) >= sampleRate) return drop('quota_sampled', { changedBy: enforced.changedBy })
    enforced.weight = Math.max(enforced.weight, 1 / sampleRate)
  }
  return enforced
}

/** The condition decides what counts as an address; any other text is in no range. */
function addressOf (sentIp: unknown, { visitor }: RequestContext): string {
  if (sentIp === undefined || sentIp === null || sentIp === '') return visitor.address
  return typeof sentIp === 'string' ? sentIp : ''
}
