/** The step that runs the rules of a project over its events. */
import { applyRules, type RuleOutcome } from '../../engines/rules/apply-rules.ts'
import type { RequestContext } from '../event.ts'

/** What the rules are asked about: everything as it is to be stored, and the address that was sent. */
interface Ruled {
  event: string
  distinctId: string
  properties: Readonly<Record<string, unknown>>
  /** The property `$ip` as it was sent; the address of the connection stands for none. */
  sentIp: unknown
}

/**
 * Runs the rules. They see the address of the client also when it is not stored.
 *
 * @returns null when there are none, or none has something to do with the event.
 */
export function runRules (
  { event, distinctId, properties, sentIp }: Ruled, context: RequestContext
): RuleOutcome | null {
  const { project: { rules }, receivedAt } = context
  if (rules === undefined) return null
  return applyRules(rules.rules, {
    event, distinctId, properties, receivedAt, ip: addressOf(sentIp, context)
  }, 'sent')
}

/** What is an address decides the condition: any other text is in no range. */
function addressOf (sentIp: unknown, { visitor }: RequestContext): string {
  if (sentIp === undefined || sentIp === null || sentIp === '') return visitor.address
  return typeof sentIp === 'string' ? sentIp : ''
}
