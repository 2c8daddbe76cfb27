/** What the screen of rules asks of the API. */
import { request, type Page } from '../api-client.ts'
import { type AskedEvents, type CheckFollower, followCheck } from '../drafts/stored-check.tsx'
import { projectId } from '../router.ts'
import type { EventRule, RuleContent, RuleCounts, RulePrediction, RuleVersion } from './event-rules.ts'

/** A project has at most so many. */
const MAX_RULES = 200

const base = (): string => `/api/projects/${projectId.value}/rules/`

/** All rules of the project, in the order in which they run. */
export async function listRules (signal: AbortSignal): Promise<EventRule[]> {
  return (await request<Page<EventRule>>(base(), { query: { limit: MAX_RULES }, signal })).results
}

/** What each rule did in the last days, by its id; those that did nothing are missing. */
export async function fetchCounts (days: number, signal: AbortSignal): Promise<ReadonlyMap<number, RuleCounts>> {
  const { results } = await request<{ results: RuleCounts[] }>(`${base()}counts/`, { query: { days }, signal })
  return new Map(results.map((counts) => [counts.rule, counts]))
}

export async function fetchRule (id: string, signal: AbortSignal): Promise<EventRule> {
  return await request<EventRule>(`${base()}${encodeURIComponent(id)}/`, { signal })
}

/** Reads the newest hundred versions, newest first. */
export async function fetchVersions (id: string, signal: AbortSignal): Promise<Page<RuleVersion>> {
  return await request<Page<RuleVersion>>(`${base()}${encodeURIComponent(id)}/versions/`, { query: { limit: 100 }, signal })
}

/** @throws {ApiError} naming the field that is refused, or the test that fails. */
export async function createRule (fields: { name: string, description: string } & RuleContent): Promise<EventRule> {
  return await request<EventRule>(base(), { method: 'POST', body: fields })
}

/** What of a rule can be changed; other content makes a version. `version`: the one that the change is based on. */
export type RuleChanges = Partial<RuleContent & Pick<EventRule, 'description' | 'position' | 'active_version' | 'version'>>

/**
 * @throws {ApiError} naming the field that is refused, or the test that fails; `conflict`: there is a newer version.
 */
export async function changeRule (id: number, changes: RuleChanges): Promise<EventRule> {
  return await request<EventRule>(`${base()}${id}/`, { method: 'PATCH', body: changes })
}

export async function deleteRule (id: number): Promise<void> {
  await request(`${base()}${id}/`, { method: 'DELETE' })
}

/**
 * Says what a draft would have done with stored events, after its tests were tried.
 *
 * @throws {ApiError} also when the check ended early.
 */
export async function checkRule (
  id: number, draft: AskedEvents & RuleContent, follower: CheckFollower
): Promise<RulePrediction> {
  return await followCheck<RulePrediction>(`${base()}${id}/check/`, draft, follower)
}
