import type { Answer, Schema } from '../../../schema/api-types.ts'
import { request, type Page } from '../api-client.ts'
import { projectId } from '../router.ts'

/** The stages that dead-letter, and what each says when it does. */
export const STAGES: Record<string, string> = {
  schema: 'it does not meet the schema of its event',
  writer: 'ClickHouse refused it',
  persons: 'the update of a person could not be applied'
}

export type DeadLetterGroups = Answer<'/api/projects/{project_id}/dead_letters/groups'>
export type DeadLetterGroup = DeadLetterGroups['results'][number]
export type DeadLetter = Schema<'DeadLetter'>
export type OpenedDeadLetter = Answer<'/api/projects/{project_id}/dead_letters/{id}'>

/** Which dead letters: undefined fields do not matter; an empty `event` or `error_code` means those without one. */
export interface Filter {
  stage?: string
  reason?: string
  event?: string
  error_code?: string
}

export type ReplayResult = Answer<'/api/projects/{project_id}/dead_letters/replay', 'post'>
type PurgeResult = Answer<'/api/projects/{project_id}/dead_letters/purge', 'post'>

/** More than this are replayed by several requests. The API's own maximum. */
export const REPLAY_LIMIT = 10_000

const base = (): string => `/api/projects/${projectId.value}/dead_letters`

export async function fetchGroups (filter: Filter, signal: AbortSignal): Promise<DeadLetterGroups> {
  return await request<DeadLetterGroups>(`${base()}/groups`, { query: { ...filter }, signal })
}

/** Reads a page of the dead letters of a filter, oldest first. An empty `event` is sent, because it has a meaning. */
export async function fetchLetters (
  filter: Filter, page: { limit: number, offset: number }, signal: AbortSignal
): Promise<Page<DeadLetter>> {
  const parameters = new URLSearchParams({ ...filter, limit: String(page.limit), offset: String(page.offset) })
  return await request<Page<DeadLetter>>(`${base()}/?${parameters.toString()}`, { signal })
}

export async function fetchLetter (id: string, signal: AbortSignal): Promise<OpenedDeadLetter> {
  return await request<OpenedDeadLetter>(`${base()}/${encodeURIComponent(id)}`, { signal })
}

/** Counts what a replay would take, without replaying. */
export async function countReplay (filter: Filter): Promise<ReplayResult> {
  return await request<ReplayResult>(`${base()}/replay`, { method: 'POST', body: { ...filter, limit: REPLAY_LIMIT, dry_run: true } })
}

/** Replays one dead letter, or those of a filter, `REPLAY_LIMIT` at most. */
export async function replay (what: { id: number } | Filter): Promise<ReplayResult> {
  return 'id' in what
    ? await request<ReplayResult>(`${base()}/${what.id}/replay`, { method: 'POST', body: {} })
    : await request<ReplayResult>(`${base()}/replay`, { method: 'POST', body: { ...what, limit: REPLAY_LIMIT } })
}

/** Counts what a purge would delete, up to 10,000. */
export async function countPurge (filter: Filter): Promise<number> {
  return (await request<PurgeResult>(`${base()}/purge`, { method: 'POST', body: { ...filter, dry_run: true } })).matched
}

/** @param limit  How many were counted: what came later stays. */
export async function purge (filter: Filter, limit: number): Promise<void> {
  await request(`${base()}/purge`, { method: 'POST', body: { ...filter, limit } })
}

export async function purgeLetter (id: number): Promise<void> {
  await request(`${base()}/${id}`, { method: 'DELETE' })
}

/** The filter of exactly one group. */
export function filterOf ({ stage, reason, error_code: code, event }: DeadLetterGroup): Required<Filter> {
  return { stage, reason, error_code: code ?? '', event: event ?? '' }
}
