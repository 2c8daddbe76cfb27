/** What the screen of rules asks of the API. */
import { createDefinitionRequests } from '../drafts/definition-requests.ts'
import type { EventRule, RuleCounts, RulePrediction, RuleVersion } from './event-rules.ts'

export const REQUESTS = createDefinitionRequests<EventRule, RuleVersion, RuleCounts, RulePrediction>('rules', ({ rule }) => rule)

/** A project has at most so many. */
const MAX_RULES = 200

/** All rules of the project, in the order in which they run. */
export async function listRules (signal: AbortSignal): Promise<EventRule[]> {
  return (await REQUESTS.list({ limit: MAX_RULES }, signal)).results
}
