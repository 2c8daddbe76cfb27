import type { Answer, Schema } from '../../api-types.ts'
import { request, type Page } from '../api-client.ts'
import { PAGE, type PageStart } from '../paging.tsx'
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

/** Path of the API of all of them; of one it ends in `/<id>`. */
export const base = (): string => `/api/projects/${projectId.value}/dead_letters`

/** Reads a page of the dead letters of a filter, oldest first. An empty `event` is sent, because it has a meaning. */
export async function fetchLetters (
  filter: Filter, start: PageStart, signal: AbortSignal
): Promise<Page<DeadLetter>> {
  const parameters = new URLSearchParams({ ...filter, limit: String(PAGE), ...start })
  return await request(`${base()}/?${parameters.toString()}`, { signal })
}

/** Replays those of a filter, `REPLAY_LIMIT` at most; a dry run only counts them. */
export async function replay (filter: Filter, isDry = false): Promise<ReplayResult> {
  return await request(`${base()}/replay`, { method: 'POST', body: { ...filter, limit: REPLAY_LIMIT, dry_run: isDry } })
}

/** Counts what a purge would delete, up to 10,000; with a limit deletes as many: what came after the count stays. */
export async function purge (filter: Filter, limit?: number): Promise<PurgeResult> {
  return await request(`${base()}/purge`, { method: 'POST', body: limit === undefined ? { ...filter, dry_run: true } : { ...filter, limit } })
}

/** The filter of exactly one group. */
export function filterOf ({ stage, reason, error_code: code, event }: DeadLetterGroup): Required<Filter> {
  return { stage, reason, error_code: code ?? '', event: event ?? '' }
}
